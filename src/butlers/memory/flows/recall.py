"""Finding memories: by meaning, by words, by both, and by all that makes one worth recalling."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.kernel import ranking
from butlers.kernel.json_values import as_json
from butlers.memory.candidates import CandidateColumns
from butlers.memory.flows.candidates import CandidateQuery, Candidates, find_candidates
from butlers.memory.handle import Memory
from butlers.memory.model import NOW, Lineage, MemoryRef, MemoryType, SearchMode, Then
from butlers.memory.policy import inputs, ranker
from butlers.memory.policy.doubt import demote_doubted, is_demoted, may_answer
from butlers.memory.policy.maturity import told_reason
from butlers.memory.policy.ranker import Ranked, ScoreParts, score_parts
from butlers.memory.policy.trust import behind_the_more_trusted, in_their_places, with_origin
from butlers.memory.store import rule_applications, search

DEPTH = 200
"""How far down each leg the ranker looks; whoever asks for more has it look further."""
MAX_HARM = 20
"""How many reasons for harm are told with a rule; an explanation has more of them."""
_SPARE = 4
"""How many times as many as are wanted are looked at, lest what is in doubt take their place."""
DEFAULT_IMPORTANCE = 5.0
"""How important a rule is, of which nobody says so."""
Choice = Callable[[Sequence[Ranked]], Sequence[Ranked]]
"""Which of the ranked are wanted."""


@dataclass(frozen=True, slots=True)
class RankedMemory:
    """A memory with the scores that a search gave it."""

    ref: MemoryRef
    scores: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory worth recalling, and why."""

    ref: MemoryRef
    row: Row
    composite_score: float
    parts: ScoreParts
    rrf_score: float
    signals: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """The memory as its reader gets it, with the parts of its score."""
        return {
            "memory_type": self.ref.type,
            **with_origin(self.row),
            "composite_score": self.composite_score,
            "score_parts": asdict(self.parts),
            "rrf_score": self.rrf_score,
            "signals": self.signals,
        }


async def search_memories(  # noqa: PLR0913 - what is sought, how, how much of it, for whom
    memory: Memory,
    query: CandidateQuery,
    mode: SearchMode,
    limit: int,
    lineage: Lineage,
    min_relevance: float = 0.0,
) -> list[dict[str, Any]]:
    """The best matches, each tagged with its type and scores; filters apply before the limit."""
    inputs.checked_limit(limit, memory.settings.retrieval.max_limit)
    inputs.checked_number("min_relevance", min_relevance, 0, 1)
    found, told = await _search(memory, query, mode, limit, lineage, min_relevance)
    scores = {one.ref: one.scores for one in found}
    rows = await _told_first(memory, list(scores), limit, lineage, query.then, told)
    ordered = demote_doubted(behind_the_more_trusted(list(rows), rows), rows)[:limit]
    return [
        as_json({"memory_type": ref.type, **with_origin(rows[ref]), **scores[ref]})
        for ref in ordered
    ]


async def recall(  # noqa: PLR0913 - what is sought, how much of it, for whom, and what it counts
    memory: Memory,
    query: CandidateQuery,
    limit: int,
    lineage: Lineage,
    *,
    counted: bool = True,
    nearest: bool = False,
) -> list[Recalled]:
    """The most relevant memories that answer, in the order of what is worth recalling now.

    Each is counted as used, unless told not to or asked of the past. Where none answers there is
    none, nor where only episodes do that are outdated; `nearest` asks for the one that comes
    nearest then.
    """
    inputs.checked_limit(limit, memory.settings.retrieval.max_limit)
    chosen, told = await _choose(
        memory, query, limit, lineage, lambda ranked: _answering(ranked) or ranked[:nearest]
    )
    recalled = await tell(memory, chosen, lineage, limit, query.then, told)
    current = [one for one in recalled if may_answer(one.row)]
    if not any(one.parts.relevance > 0 for one in current):
        return (current or recalled)[:nearest]
    if not counted or query.then:
        return recalled
    now = memory.now()
    memory.uses.count(lineage.tenant_id, [one.ref for one in recalled], now)
    return [replace(one, row=_used(one.row, now)) for one in recalled]


def best_of(sight: Candidates, kind: MemoryType, limit: int, *, gated: bool) -> list[Ranked]:
    """The most relevant of one kind, judged by themselves; gated, only those that surely answer.

    What is told unasked must be worth its place: it stands nearer to the best than recall asks.
    """
    looked = sight.looked.only(kind)
    ranked = ranker.rank(looked, sight.reading, sight.names, max(limit, DEPTH)).ranked
    sure = [one for one in ranked if one.relevance > 0 and one.behind <= ranker.LEAST_REACH]
    return (sure if gated else ranked)[:limit]


def _answering(ranked: Sequence[Ranked]) -> list[Ranked]:
    return [one for one in ranked if one.relevance > 0]


async def _choose(
    memory: Memory, query: CandidateQuery, limit: int, lineage: Lineage, wanted: Choice
) -> tuple[list[Ranked], dict[MemoryRef, Row]]:
    """Which candidates of a question are wanted, best first, and what the first of them say.

    Episodes that are outdated come last, and the others are judged as if they were not there: how
    near they come would hide what took their place.
    """
    depth = max(limit, DEPTH)
    sight = await find_candidates(memory, query, lineage, depth)
    told: dict[MemoryRef, Row] = {}
    outdated: list[Ranked] = []
    while True:
        looked = (
            sight.looked.without({one.ref.id for one in outdated}) if outdated else sight.looked
        )
        chosen = wanted(ranker.rank(looked, sight.reading, sight.names, depth).ranked)
        chosen = chosen[: _SPARE * limit]
        refs = [one.ref for one in chosen]
        told |= await _told_first(memory, refs, limit, lineage, query.then, told)
        gone = [one for one in chosen if one.ref in told and not may_answer(told[one.ref])]
        if not gone:
            return [*chosen, *outdated], told
        outdated += gone


async def tell(  # noqa: PLR0913 - what, for whom, how much, of when, and what is known of it
    memory: Memory,
    chosen: Sequence[Ranked],
    lineage: Lineage,
    limit: int,
    then: Then = NOW,
    known: Mapping[MemoryRef, Row] | None = None,
) -> list[Recalled]:
    """What the first of the chosen say, in their one order: composite score, newest, then id.

    What is in doubt stands behind what is not, and episodes that are outdated behind all.
    """
    now, by_ref = then.at(memory.now()), {one.ref: one for one in chosen}
    told = await _told_first(memory, list(by_ref), limit, lineage, then, known or {})
    weights = memory.settings.retrieval.score_weights
    recalled = [
        Recalled(ref, row, parts.composite(weights), parts, one.rrf_score, one.signals)
        for ref, one in by_ref.items()
        if (row := told.get(ref)) and (parts := _parts(one, row, now))
    ]
    recalled.sort(
        key=lambda one: ranking.best_first(one.composite_score, one.row["created_at"], one.ref.id),
    )
    found = {one.ref: one for one in recalled}
    ordered = demote_doubted(in_their_places(list(found), told), told)
    return [found[ref] for ref in ordered[:limit]]


async def _told_first(  # noqa: PLR0913 - as above
    memory: Memory,
    refs: Sequence[MemoryRef],
    limit: int,
    lineage: Lineage,
    then: Then,
    known: Mapping[MemoryRef, Row],
) -> dict[MemoryRef, Row]:
    """The first of these as they are told, as many as are wanted; for each of them that yields
    to what holds, one more."""
    told: dict[MemoryRef, Row] = {}
    start, missing = 0, limit
    while missing > 0 and start < len(refs):
        some = refs[start : start + max(missing, len(told))]
        told |= {ref: known[ref] for ref in some if ref in known}
        if new := [ref for ref in some if ref not in known]:
            told |= await search.tell_memories(
                memory.database, lineage.tenant_id, new, memory.now(), then
            )
        start += len(some)
        missing = limit - sum(1 for row in told.values() if not is_demoted(row))
    return {ref: told[ref] for ref in refs if ref in told}


def _used(row: Row, now: datetime) -> Row:
    count = row["reference_count"] + 1
    return {**row, "reference_count": count, "last_referenced_at": now}


async def get_memory(
    memory: Memory, memory_type: MemoryType, memory_id: UUID, lineage: Lineage
) -> dict[str, Any] | None:
    """One memory, counted as used; None where there is none."""
    ref, now = MemoryRef(memory_type, memory_id), memory.now()
    await memory.settled(lineage.tenant_id)
    rows = await search.tell_memories(memory.database, lineage.tenant_id, [ref], now)
    if ref not in rows:
        return None
    memory.uses.count(lineage.tenant_id, [ref], now)
    told = {**with_origin(_used(rows[ref], now)), **await _harm(memory, rows[ref], lineage)}
    return as_json({"memory_type": memory_type, **told})


async def _harm(memory: Memory, row: Row, lineage: Lineage) -> dict[str, Any]:
    """What a rule is said to have done, by whom and when; the latest of it."""
    if not row.get("harmful_count"):
        return {}
    async with memory.transaction(lineage) as tx:
        told = await rule_applications.find_harm(tx, rule_id=row["id"], limit=MAX_HARM)
    return {"harm": [{**one, "reason": told_reason(one["reason"])} for one in told]}


async def _search(  # noqa: PLR0913 - as above
    memory: Memory,
    query: CandidateQuery,
    mode: SearchMode,
    limit: int,
    lineage: Lineage,
    least: float,
) -> tuple[list[RankedMemory], dict[MemoryRef, Row]]:
    if mode is SearchMode.HYBRID:
        relevant, told = await _choose(
            memory, query, limit, lineage, lambda all: [r for r in all if r.relevance >= least]
        )
        shown = [one for one in relevant if one.ref in told]
        return [RankedMemory(one.ref, _fused_scores(one)) for one in shown], told
    looked = (await find_candidates(memory, query, lineage, 2 * limit, mode)).looked
    found = _by_meaning(looked) if mode is SearchMode.SEMANTIC else _by_words(looked)
    return [one for one in found if one.scores["relevance"] >= least], {}


def _fused_scores(one: Ranked) -> dict[str, Any]:
    near = float(one.looked.similarities[one.number])
    words = float(one.looked.ranks[one.number])
    return {
        "rrf_score": one.rrf_score,
        "semantic_rank": one.semantic_rank,
        "keyword_rank": one.keyword_rank,
        "relevance": one.relevance,
        **({} if math.isnan(near) else {"similarity": near}),
        **({"rank": words} if words > 0 else {}),
        "signals": one.signals,
    }


def _by_meaning(looked: CandidateColumns) -> list[RankedMemory]:
    """The nearest first."""
    near = looked.similarities.tolist()
    return [
        RankedMemory(looked.ref(n), {"similarity": near[n], "relevance": max(near[n], 0.0)})
        for n in _in_order(looked.near_places)
    ]


def _by_words(looked: CandidateColumns) -> list[RankedMemory]:
    """The fullest and rarest match first; one that has every word in full would be wholly so."""
    highest, ranks = ranker.highest_rank(looked.header), looked.ranks.tolist()
    return [
        RankedMemory(looked.ref(n), {"rank": ranks[n], "relevance": min(ranks[n] / highest, 1.0)})
        for n in _in_order(looked.word_places)
    ]


def _in_order(places: Sequence[int | None]) -> list[int]:
    """The numbers of those that have a place, by it."""
    taken = [(place, number) for number, place in enumerate(places) if place is not None]
    return [number for _, number in sorted(taken)]


def _parts(one: Ranked, row: Row, now: datetime) -> ScoreParts:
    """What an episode has no doubt about counts as sure, what a rule does not say as middling."""
    return score_parts(
        one.relevance,
        row.get("importance", DEFAULT_IMPORTANCE),
        row["last_referenced_at"],
        row.get("effective_confidence", 1.0),
        now,
    )
