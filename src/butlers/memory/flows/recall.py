"""Finding memories: by meaning, by words, by both, and by all that makes one worth recalling."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, assert_never
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.kernel import fusion, ranking
from butlers.kernel.json_values import as_json
from butlers.kernel.text import preprocess_search_query
from butlers.memory.handle import Memory, Question
from butlers.memory.model import Lineage, MemoryRef, MemoryType, SearchMode
from butlers.memory.policy import inputs
from butlers.memory.policy.scoring import ScoreParts, score_parts
from butlers.memory.store import episodes, facts, rules, search
from butlers.memory.store.search import Candidate, Filter

ALL_TYPES = tuple(MemoryType)
# Fusing longer lists than the caller wants finds what is middling in both; on conversations,
# extracted memories and long assistant chats alike, fifty did best.
FUSED_DEPTH = 50
# Rows up to which a tenant's vectors are all read: exact, and about as quick as the index.
READ_WHOLE = 10_000
MAX_QUERY = 10_000

Ways = dict[MemoryType, Callable[..., Awaitable[list[Row]]]]


async def _find_episodes(tx: Transaction, *, ids: Sequence[UUID], now: datetime) -> list[Row]:
    return await episodes.find(tx, ids=ids)


FIND: Ways = {
    MemoryType.EPISODE: _find_episodes,
    MemoryType.FACT: facts.find,
    MemoryType.RULE: rules.find,
}
"""How memories of each kind are read; what never fades does not ask what time it is."""
_REFERENCE: Ways = {
    MemoryType.EPISODE: episodes.reference,
    MemoryType.FACT: facts.reference,
    MemoryType.RULE: rules.reference,
}


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for, and among what."""

    text: str
    types: tuple[MemoryType, ...] = ALL_TYPES
    scope: str | None = None
    min_confidence: float = 0.2


@dataclass(frozen=True, slots=True)
class Found:
    """A candidate with the scores that a search gave it."""

    candidate: Candidate
    scores: dict[str, float]


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory worth recalling, and why."""

    ref: MemoryRef
    row: Row
    composite_score: float
    parts: ScoreParts
    rrf_score: float

    def as_dict(self) -> dict[str, Any]:
        """The memory as its reader gets it, with the parts of its score."""
        return {
            "memory_type": self.ref.type,
            **self.row,
            "composite_score": self.composite_score,
            "score_parts": asdict(self.parts),
            "rrf_score": self.rrf_score,
        }


@dataclass(frozen=True, slots=True)
class Look:
    """One search under way: its transaction, its question and what it may find."""

    tx: Transaction
    text: str
    question: Question | None
    where: Filter
    corpus_size: int


async def search_memories(
    memory: Memory, query: Query, mode: SearchMode, limit: int, lineage: Lineage
) -> list[dict[str, Any]]:
    """The best matches, each tagged with its type and scores; filters apply before the limit."""
    query = _checked(query)
    inputs.checked_limit(limit, memory.settings.retrieval.max_limit)
    by_words = mode is SearchMode.KEYWORD
    question = None if by_words else await memory.embed_question(query.text, lineage)
    async with memory.transaction(lineage) as tx:
        look = await _look(memory, tx, query, question)
        found = (await _search(look, mode, limit))[:limit]
        rows = await _rows(tx, [one.candidate.ref for one in found], look.where.now, FIND)
    return [
        as_json({"memory_type": one.candidate.ref.type, **rows[one.candidate.ref], **one.scores})
        for one in found
        if one.candidate.ref in rows
    ]


async def recall(
    memory: Memory, query: Query, limit: int, lineage: Lineage, *, counted: bool = True
) -> list[Recalled]:
    """The memories most worth recalling now; each is counted as used, unless told not to."""
    query = _checked(query)
    inputs.checked_limit(limit, memory.settings.retrieval.max_limit)
    question = await memory.embed_question(query.text, lineage)
    async with memory.transaction(lineage) as tx:
        look = await _look(memory, tx, query, question)
        found = await hybrid_search(look, max(limit, FUSED_DEPTH))
        chosen = _best(memory, found, look.where)[:limit]
        refs = [one.candidate.ref for one, _, _ in chosen]
        rows = await _rows(tx, refs, look.where.now, _REFERENCE if counted else FIND)
    return [
        Recalled(one.candidate.ref, rows[one.candidate.ref], score, parts, one.scores["rrf_score"])
        for one, score, parts in chosen
        if one.candidate.ref in rows
    ]


async def get_memory(
    memory: Memory, memory_type: MemoryType, memory_id: UUID, lineage: Lineage
) -> dict[str, Any] | None:
    """One memory, counted as used; None where there is none."""
    ref = MemoryRef(memory_type, memory_id)
    async with memory.transaction(lineage) as tx:
        rows = await _rows(tx, [ref], memory.now(), _REFERENCE)
    return as_json({"memory_type": memory_type, **rows[ref]}) if ref in rows else None


async def semantic_search(look: Look, limit: int) -> list[Candidate]:
    """The nearest by meaning; exact where the tenant is small or the index comes up short."""
    asked = look.question
    if asked is None:
        return []
    if look.corpus_size > READ_WHOLE and not asked.scattered:
        found = await search.nearest_indexed(
            look.tx, asked.vector, asked.version_id, look.where, limit
        )
        if len(found) == limit:
            return found
    return await search.nearest(look.tx, asked.vector, asked.version_id, look.where, limit)


async def keyword_search(look: Look, limit: int) -> list[Candidate]:
    """The best by shared words; nothing asked finds nothing."""
    if not look.text:
        return []
    return await search.matching(look.tx, look.text, look.where, limit, look.corpus_size)


async def hybrid_search(look: Look, limit: int) -> list[Found]:
    """Both searches to the same depth, fused; up to twice as many results."""
    near = await semantic_search(look, limit)
    return fuse(near, await keyword_search(look, limit), limit)


async def _look(memory: Memory, tx: Transaction, query: Query, question: Question | None) -> Look:
    where = Filter(query.types, query.scope, query.min_confidence, memory.now())
    size = await search.corpus_size(tx, types=query.types, most=READ_WHOLE + 1)
    return Look(tx, query.text, question, where, size)


async def _search(look: Look, mode: SearchMode, limit: int) -> list[Found]:
    match mode:
        case SearchMode.SEMANTIC:
            near = await semantic_search(look, limit)
            return [Found(one, {"similarity": one.score}) for one in near]
        case SearchMode.KEYWORD:
            matching = await keyword_search(look, limit)
            return [Found(one, {"rank": one.score}) for one in matching]
        case SearchMode.HYBRID:
            return await hybrid_search(look, max(limit, FUSED_DEPTH))
    assert_never(mode)


def fuse(near: Sequence[Candidate], matching: Sequence[Candidate], limit: int) -> list[Found]:
    """Both lists as one, by reciprocal rank; what one lacks ranks just below its end."""
    candidates = {one.ref: one for one in (*matching, *near)}
    similarity = {one.ref: one.score for one in near}
    rank = {one.ref: one.score for one in matching}
    fused = fusion.reciprocal_rank_fusion(
        [one.ref for one in near], [one.ref for one in matching], limit
    )
    return [
        Found(
            candidates[one.id],
            {
                "rrf_score": one.rrf_score,
                "semantic_rank": one.semantic_rank,
                "keyword_rank": one.keyword_rank,
                **({"similarity": similarity[one.id]} if one.id in similarity else {}),
                **({"rank": rank[one.id]} if one.id in rank else {}),
            },
        )
        for one in fused
    ]


def _best(
    memory: Memory, found: Sequence[Found], where: Filter
) -> list[tuple[Found, float, ScoreParts]]:
    """Everything found in its one order: composite score, then newest, then id."""
    weights = memory.settings.retrieval.score_weights
    scored = []
    for one in found:
        it = one.candidate
        parts = score_parts(
            one.scores["rrf_score"], it.importance, it.last_referenced_at, it.confidence, where.now
        )
        scored.append((one, parts.composite(weights), parts))
    return sorted(
        scored,
        key=lambda s: ranking.best_first(s[1], s[0].candidate.created_at, s[0].candidate.ref.id),
    )


def _checked(query: Query) -> Query:
    text = preprocess_search_query(query.text)
    inputs.checked_number("min_confidence", query.min_confidence, 0, 1)
    scope = inputs.checked_line("scope", query.scope, inputs.MAX_SCOPE) if query.scope else None
    return Query(text[:MAX_QUERY], query.types or ALL_TYPES, scope, query.min_confidence)


async def _rows(
    tx: Transaction, refs: Sequence[MemoryRef], now: datetime, ways: Ways
) -> dict[MemoryRef, Row]:
    """What there is under these, one statement for each kind."""
    rows = dict[MemoryRef, Row]()
    for kind, way in ways.items():
        ids = [ref.id for ref in refs if ref.type is kind]
        found = await way(tx, ids=ids, now=now) if ids else ()
        rows |= {MemoryRef(kind, row["id"]): row for row in found}
    return rows
