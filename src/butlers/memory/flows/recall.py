"""Finding memories: by meaning, by words, by both, and by all that makes one worth recalling."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, assert_never
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.kernel import fusion, ranking
from butlers.kernel.json_values import as_json
from butlers.kernel.text import preprocess_search_query
from butlers.kernel.words import prepared
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryRef, MemoryType, SearchMode
from butlers.memory.policy import inputs
from butlers.memory.policy.scoring import ScoreParts, score_parts
from butlers.memory.store import episodes, facts, rules, search
from butlers.memory.store.search import Asked, Candidate, Filter, Looked, Standing

ALL_TYPES = tuple(MemoryType)
# Fusing longer lists than the caller wants finds what is middling in both; on conversations,
# extracted memories and long assistant chats alike, fifty did best.
FUSED_DEPTH = 50
# Rows up to which a tenant's vectors are all read: exact, and about as quick as the index.
READ_WHOLE = 10_000
MAX_QUERY = 10_000
DEFAULT_IMPORTANCE = 5.0
"""How important a rule is, of which nobody says so."""

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


async def search_memories(
    memory: Memory, query: Query, mode: SearchMode, limit: int, lineage: Lineage
) -> list[dict[str, Any]]:
    """The best matches, each tagged with its type and scores; filters apply before the limit."""
    query = _checked(query)
    inputs.checked_limit(limit, memory.settings.retrieval.max_limit)
    found = (await _search(memory, query, mode, limit, lineage))[:limit]
    refs = [one.candidate.ref for one in found]
    rows = await search.tell_memories(memory.database, lineage.tenant_id, refs, memory.now())
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
    now, depth = memory.now(), max(limit, FUSED_DEPTH)
    found = hybrid_search(await _looked(memory, query, SearchMode.HYBRID, depth, lineage), depth)
    refs = [one.candidate.ref for one in found]
    told = await search.tell_memories(memory.database, lineage.tenant_id, refs, now)
    chosen = _best(memory, found, told, now)[:limit]
    if counted:
        async with memory.transaction(lineage) as tx:
            told = await _rows(tx, [one.candidate.ref for one, _, _ in chosen], now, _REFERENCE)
    return [
        Recalled(one.candidate.ref, told[one.candidate.ref], score, parts, one.scores["rrf_score"])
        for one, score, parts in chosen
        if one.candidate.ref in told
    ]


async def get_memory(
    memory: Memory, memory_type: MemoryType, memory_id: UUID, lineage: Lineage
) -> dict[str, Any] | None:
    """One memory, counted as used; None where there is none."""
    ref = MemoryRef(memory_type, memory_id)
    async with memory.transaction(lineage) as tx:
        rows = await _rows(tx, [ref], memory.now(), _REFERENCE)
    return as_json({"memory_type": memory_type, **rows[ref]}) if ref in rows else None


def semantic_search(looked: Looked) -> list[Candidate]:
    """The nearest by meaning, nearest first."""
    return _in_order((one.meaning_place, one) for one in looked.candidates)


def keyword_search(looked: Looked) -> list[Candidate]:
    """The best by shared words, best first."""
    return _in_order((one.words_place, one) for one in looked.candidates)


def hybrid_search(looked: Looked, depth: int) -> list[Found]:
    """Both searches, fused; up to twice as many results as either was deep."""
    return fuse(semantic_search(looked), keyword_search(looked), depth)


async def look(memory: Memory, query: Query, asked: Asked, depth: int, lineage: Lineage) -> Looked:
    """What may answer, by meaning and by words, each to a depth: one round trip."""
    where = Filter(query.types, query.scope, query.min_confidence, memory.now())
    return await search.find_candidates(
        memory.database, lineage.tenant_id, asked, where, depth, READ_WHOLE
    )


async def _looked(
    memory: Memory, query: Query, mode: SearchMode, depth: int, lineage: Lineage
) -> Looked:
    """A look with what is remembered of the tenant; if that was outdated, another one."""
    standing = await memory.standing(lineage)
    looked = await look(memory, query, await _asked(memory, query, mode, standing), depth, lineage)
    if looked.header.stale:
        fresh = await memory.standing(lineage, anew=True)
        if fresh != standing:
            asked = await _asked(memory, query, mode, fresh)
            looked = await look(memory, query, asked, depth, lineage)
    return looked


async def _asked(memory: Memory, query: Query, mode: SearchMode, standing: Standing) -> Asked:
    """What is looked up: the words unless only meaning counts, the vector unless only words do."""
    words = "" if mode is SearchMode.SEMANTIC else prepared(query.text)
    names, total = len(standing.names), standing.memories
    if mode is SearchMode.KEYWORD:
        return Asked(standing.current_id, names, total, words)
    question = await memory.embed_question(query.text, standing)
    if question is None:
        return Asked(None, names, total, words)
    return Asked(question.version_id, names, total, words, question.vector)


async def _search(
    memory: Memory, query: Query, mode: SearchMode, limit: int, lineage: Lineage
) -> list[Found]:
    depth = max(limit, FUSED_DEPTH) if mode is SearchMode.HYBRID else limit
    looked = await _looked(memory, query, mode, depth, lineage)
    match mode:
        case SearchMode.SEMANTIC:
            return [Found(one, {"similarity": _near(one)}) for one in semantic_search(looked)]
        case SearchMode.KEYWORD:
            return [Found(one, {"rank": one.rank}) for one in keyword_search(looked)]
        case SearchMode.HYBRID:
            return hybrid_search(looked, depth)
    assert_never(mode)


def _in_order(placed: Iterable[tuple[int | None, Candidate]]) -> list[Candidate]:
    """Those that have a place, by it."""
    there = {place: one for place, one in placed if place is not None}
    return [there[place] for place in sorted(there)]


def _near(one: Candidate) -> float:
    return one.similarity or 0.0


def fuse(near: Sequence[Candidate], matching: Sequence[Candidate], limit: int) -> list[Found]:
    """Both lists as one, by reciprocal rank; what one lacks ranks just below its end."""
    candidates = {one.ref: one for one in (*matching, *near)}
    similarity = {one.ref: _near(one) for one in near}
    rank = {one.ref: one.rank for one in matching}
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
    memory: Memory, found: Sequence[Found], told: Mapping[MemoryRef, Row], now: datetime
) -> list[tuple[Found, float, ScoreParts]]:
    """Everything found in its one order: composite score, then newest, then id."""
    weights = memory.settings.retrieval.score_weights
    scored = [
        (one, parts.composite(weights), parts)
        for one in found
        if (row := told.get(one.candidate.ref)) and (parts := _parts(one, row, now))
    ]
    return sorted(
        scored,
        key=lambda s: ranking.best_first(s[1], s[0].candidate.created_at, s[0].candidate.ref.id),
    )


def _parts(one: Found, row: Row, now: datetime) -> ScoreParts:
    """What an episode has no doubt about counts as sure, what a rule does not say as middling."""
    return score_parts(
        one.scores["rrf_score"],
        row.get("importance", DEFAULT_IMPORTANCE),
        row["last_referenced_at"],
        row.get("effective_confidence", 1.0),
        now,
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
