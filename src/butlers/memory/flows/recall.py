"""Search memories by meaning, by words or by both, and recall what answers a question."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.kernel import ranking
from butlers.kernel.json_values import as_json
from butlers.memory import limits
from butlers.memory.candidates import CandidateColumns
from butlers.memory.flows.candidates import CandidateQuery, Candidates, find_candidates
from butlers.memory.flows.quarantine import get_quarantined
from butlers.memory.handle import Memory
from butlers.memory.model import NOW, Lineage, MemoryRef, MemoryType, SearchMode, Then
from butlers.memory.policy import inputs, ranker
from butlers.memory.policy.excerpt import covered_by_pieces
from butlers.memory.policy.maturity import shown_reason
from butlers.memory.policy.ranker import Ranked, ScoreParts, score_parts
from butlers.memory.policy.trust import (
    demote_doubted,
    is_demoted,
    may_answer,
    order_by_trust,
    order_facts_by_trust,
    with_origin,
)
from butlers.memory.store import rules, search

DEPTH = 200
"""How many candidates of each search are ranked; a higher limit raises it."""
MAX_HARM = 20
"""How many reasons for harm come with a rule; an explanation has more."""
_SPARE = 4
"""How many times the limit is read, so that memories in doubt can be replaced by others."""
DEFAULT_LIMIT, MANY_LIMIT = 10, 50
"""How many memories are returned by default; to a question that wants many, more."""
SMALL_STORE = 50
"""In a store of fewer memories, the two nearest may be returned where none answers."""
Choice = Callable[[CandidateColumns], Sequence[Ranked]]
"""Ranks candidates and selects from them."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory worth recalling, and why."""

    ref: MemoryRef
    row: Row
    composite_score: float
    parts: ScoreParts
    rrf_score: float
    signals: dict[str, float]
    unsure: bool = False
    """Whether it is merely the nearest where none answers."""

    def as_dict(self) -> dict[str, Any]:
        """Return the memory with its scores, as JSON values."""
        return {
            "memory_type": self.ref.type,
            **with_origin(self.row),
            "composite_score": self.composite_score,
            "score_parts": asdict(self.parts),
            "rrf_score": self.rrf_score,
            "signals": self.signals,
            **({"unsure": True} if self.unsure else {}),
        }


@dataclass(frozen=True, slots=True)
class RecalledRows:
    """Loads the memories of one search as their readers get them, each at most once."""

    memory: Memory
    lineage: Lineage
    then: Then = NOW
    loaded: dict[MemoryRef, Row] = field(default_factory=dict)
    with_whole: bool = False

    def covered(self, chosen: Sequence[Ranked]) -> set[MemoryRef]:
        """Return the whole episodes among the loaded of which pieces are loaded too."""
        rows = {one.ref: self.loaded[one.ref] for one in chosen if one.ref in self.loaded}
        return set() if self.with_whole else covered_by_pieces(rows)

    async def load(self, refs: Sequence[MemoryRef], limit: int) -> dict[MemoryRef, Row]:
        """Load the first `limit` of these; one more for each that ranks behind current ones."""
        rows: dict[MemoryRef, Row] = {}
        database, now = self.memory.database, self.memory.now()
        start, missing = 0, limit
        while missing > 0 and start < len(refs):
            batch = refs[start : start + max(missing, len(rows))]
            if new := [ref for ref in batch if ref not in self.loaded]:
                tenant = self.lineage.tenant_id
                found = await search.load_memories(database, tenant, new, now, self.then)
                self.loaded.update(found)
            rows |= {ref: self.loaded[ref] for ref in batch if ref in self.loaded}
            start += len(batch)
            missing = limit - sum(not is_demoted(row) for row in rows.values())
        return rows


async def search_memories(
    memory: Memory,
    query: CandidateQuery,
    mode: SearchMode,
    limit: int,
    lineage: Lineage,
    min_relevance: float = 0.0,
) -> list[dict[str, Any]]:
    """Return the best matches with their scores; filters apply before the limit.

    Refuses a limit above MAX_LIMIT and a relevance outside 0 to 1. Counts nothing as used.
    """
    inputs.checked_limit(limit, limits.MAX_LIMIT)
    inputs.checked_number("min_relevance", min_relevance, 0, 1)
    rows = RecalledRows(memory, lineage, query.then, with_whole=True)
    if mode is SearchMode.HYBRID:
        candidates = await find_candidates(memory, query, lineage, max(limit, DEPTH))
        ranked = await choose(
            candidates,
            limit,
            rows,
            lambda columns: [
                one for one in candidates.ranked(columns) if one.relevance >= min_relevance
            ],
        )
        scores = {one.ref: _fused_scores(one) for one in ranked if one.ref in rows.loaded}
    else:
        columns = (await find_candidates(memory, query, lineage, 2 * limit, mode)).columns
        scored = _by_meaning(columns) if mode is SearchMode.SEMANTIC else _by_words(columns)
        scores = {ref: one for ref, one in scored.items() if one["relevance"] >= min_relevance}
    loaded = await rows.load(list(scores), limit)
    ordered = demote_doubted(order_facts_by_trust(list(loaded), loaded), loaded)[:limit]
    return [
        as_json({"memory_type": ref.type, **with_origin(loaded[ref]), **scores[ref]})
        for ref in ordered
    ]


async def recall(
    memory: Memory,
    query: CandidateQuery,
    limit: int | None,
    lineage: Lineage,
    *,
    counted: bool = True,
    nearest: bool = False,
) -> list[Recalled]:
    """Return the most relevant memories that answer, by their composite score.

    Without a limit, ten, and up to fifty for a question that wants many. They count as used,
    unless `counted` is false or the query asks about the past. Where nothing answers, or only
    outdated episodes do, nothing is returned, or with `nearest` the memory that comes nearest, in a
    small store the two nearest: they are `unsure` and never count as used.
    """
    if limit is not None:
        inputs.checked_limit(limit, limits.MAX_LIMIT)
    rows = RecalledRows(memory, lineage, query.then)
    candidates = await find_candidates(memory, query, lineage, max(limit or MANY_LIMIT, DEPTH))
    limit = limit or (MANY_LIMIT if candidates.question.wants_many else DEFAULT_LIMIT)
    unsure = nearest * (2 if candidates.columns.header.total < SMALL_STORE else 1)
    chosen = await choose(
        candidates,
        limit,
        rows,
        lambda columns: answering(all := candidates.ranked(columns)) or all[:unsure],
    )
    recalled = await score(memory, chosen, rows, limit, query.then)
    current = [one for one in recalled if may_answer(one.row)]
    if not any(one.parts.relevance > 0 for one in current):
        return [replace(one, unsure=True) for one in (current or recalled)[:unsure]]
    if not counted or query.then != NOW:
        return recalled
    memory.uses.count(lineage.tenant_id, [one.ref for one in recalled], now := memory.now())
    return [replace(one, row=_used(one.row, now)) for one in recalled]


def answering(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Select what passes the gate."""
    return [one for one in ranked if one.relevance > 0]


async def choose(
    candidates: Candidates, limit: int, rows: RecalledRows, choice: Choice
) -> list[Ranked]:
    """Choose among the candidates of a query and load them; outdated episodes come last.

    The others are ranked anew without them: an outdated episode may come so near that it hides
    what replaced it. Whole episodes are left out beside pieces of them.
    """
    columns, outdated = candidates.columns, list[Ranked]()
    while True:
        chosen = choice(columns)[: _SPARE * limit]
        await rows.load([one.ref for one in chosen], limit)
        while whole := rows.covered(chosen):
            chosen = [one for one in chosen if one.ref not in whole]
            await rows.load([one.ref for one in chosen], limit)
        gone = [one for one in chosen if not may_answer(rows.loaded.get(one.ref, {}))]
        if not gone:
            return [*chosen, *outdated]
        outdated += gone
        columns = candidates.columns.without({one.ref.id for one in outdated})


async def score(
    memory: Memory, chosen: Sequence[Ranked], rows: RecalledRows, limit: int, then: Then = NOW
) -> list[Recalled]:
    """Load and score the first of the chosen: by composite score, then newest, then id.

    Nothing comes before what is more than twice as relevant. Memories in doubt rank behind the
    others, and outdated episodes last.
    """
    now = then.as_of or then.known_at or memory.now()
    by_ref = {one.ref: one for one in chosen}
    loaded = await rows.load(list(by_ref), limit)
    weights = memory.settings.retrieval.score_weights
    recalled = [
        Recalled(ref, row, parts.composite(weights), parts, one.rrf_score, one.signals)
        for ref, row in loaded.items()
        if (one := by_ref[ref]) and (parts := score_parts(one.relevance, row, now))
    ]
    recalled.sort(
        key=lambda one: ranking.best_first(one.composite_score, one.row["created_at"], one.ref.id),
    )
    order = ranker.ordered_by_relevance(
        [one.parts.relevance for one in recalled], [one.composite_score for one in recalled]
    )
    found = {recalled[number].ref: recalled[number] for number in order}
    likely = {ref: one.parts.relevance for ref, one in found.items()}
    return [found[ref] for ref in demote_doubted(order_by_trust(likely, loaded), loaded)[:limit]]


def _used(row: Row, now: datetime) -> Row:
    count = row["reference_count"] + 1
    return {**row, "reference_count": count, "last_referenced_at": now}


async def get_memory(
    memory: Memory, memory_type: MemoryType, memory_id: UUID, lineage: Lineage
) -> dict[str, Any] | None:
    """Return one memory and count it as used, unless it is quarantined; None if there is none."""
    ref, now = MemoryRef(memory_type, memory_id), memory.now()
    await memory.settled(lineage.tenant_id)
    rows = await search.load_memories(memory.database, lineage.tenant_id, [ref], now)
    if ref not in rows:
        return await get_quarantined(memory, ref, lineage)
    memory.uses.count(lineage.tenant_id, [ref], now)
    row = {**with_origin(_used(rows[ref], now)), **await _harm(memory, rows[ref], lineage)}
    return as_json({"memory_type": memory_type, **row})


async def _harm(memory: Memory, row: Row, lineage: Lineage) -> dict[str, Any]:
    """Load the latest reports of harm by a rule: what it did, who says so and when."""
    if not row.get("harmful_count"):
        return {}
    async with memory.transaction(lineage) as tx:
        reports = await rules.find_harmful_applications(tx, rule_id=row["id"], limit=MAX_HARM)
    return {"harm": [{**report, "reason": shown_reason(report["reason"])} for report in reports]}


def _fused_scores(one: Ranked) -> dict[str, Any]:
    near, words = map(float, (one.columns.similarities[one.number], one.columns.ranks[one.number]))
    return {
        "rrf_score": one.rrf_score,
        "semantic_rank": one.semantic_rank,
        "keyword_rank": one.keyword_rank,
        "relevance": one.relevance,
        **({} if math.isnan(near) else {"similarity": near}),
        **({"rank": words} if words > 0 else {}),
        "signals": one.signals,
    }


def _by_meaning(columns: CandidateColumns) -> dict[MemoryRef, dict[str, Any]]:
    """Return the scores of candidates in the order of their similarity."""
    near = columns.similarities.tolist()
    return {
        ref: {"similarity": near[n], "relevance": max(near[n], 0.0)}
        for n, ref in _in_order(columns, columns.near_places)
    }


def _by_words(columns: CandidateColumns) -> dict[MemoryRef, dict[str, Any]]:
    """Return the scores of candidates in the order of their rank; 1 is every word in full."""
    highest, ranks = ranker.highest_rank(columns.header), columns.ranks.tolist()
    return {
        ref: {"rank": ranks[n], "relevance": min(ranks[n] / highest, 1.0)}
        for n, ref in _in_order(columns, columns.word_places)
    }


def _in_order(
    columns: CandidateColumns, places: Sequence[int | None]
) -> list[tuple[int, MemoryRef]]:
    """Return the number and the memory of each candidate that has a place, by it."""
    numbers = sorted((place, n) for n, place in enumerate(places) if place is not None)
    return [(n, MemoryRef(MemoryType(columns.kinds[n]), columns.ids[n])) for _, n in numbers]
