"""Search memories by meaning, by words or by both, and recall what answers a question."""

from collections.abc import Awaitable, Callable, Sequence
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
from butlers.memory.policy.search_scores import by_meaning, by_words, fused_scores
from butlers.memory.policy.trust import (
    demote_doubted,
    is_demoted,
    joined_results,
    low_trust_room,
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
Weigh = Callable[[Sequence[Ranked]], Awaitable[Sequence[Ranked]]]
"""Changes the relevance of what was chosen."""


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
    depth = max(limit, DEPTH) if mode is SearchMode.HYBRID else 2 * limit
    candidates = await find_candidates(memory, query, lineage, depth, mode)

    def choice(columns: CandidateColumns) -> list[Ranked]:
        return [one for one in candidates.ranked(columns) if one.relevance >= min_relevance]

    async def found_in(columns: CandidateColumns) -> list[dict[str, Any]]:
        if mode is SearchMode.HYBRID:
            ranked = await choose(columns, limit, rows, choice)
            scores = {one.ref: fused_scores(one) for one in ranked if one.ref in rows.loaded}
        else:
            scored = by_meaning(columns) if mode is SearchMode.SEMANTIC else by_words(columns)
            scores = {ref: one for ref, one in scored.items() if one["relevance"] >= min_relevance}
        loaded = await rows.load(list(scores), limit)
        ordered = demote_doubted(order_facts_by_trust(list(loaded), loaded), loaded)[:limit]
        return [
            as_json({"memory_type": ref.type, **with_origin(loaded[ref]), **scores[ref]})
            for ref in ordered
        ]

    found = await found_in(candidates.columns)
    low = await found_in(candidates.low) if candidates.low else []
    return joined_results(found, low, sum(one["relevance"] > 0 for one in low), limit)


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
    recalled = await select(
        memory,
        candidates,
        limit,
        rows,
        lambda columns: answering(all := candidates.ranked(columns)) or all[:unsure],
    )
    current = [one for one in recalled if may_answer(one.row)]
    if not any(one.parts.relevance > 0 for one in current):
        return [replace(one, unsure=True) for one in (current or recalled)[:unsure]]
    recalled = [one if one.parts.relevance > 0 else replace(one, unsure=True) for one in recalled]
    if not counted or query.then != NOW:
        return recalled
    used = [one.ref for one in recalled if not one.unsure]
    memory.uses.count(lineage.tenant_id, used, now := memory.now())
    return [one if one.unsure else replace(one, row=_used(one.row, now)) for one in recalled]


def answering(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Select what passes the gate."""
    return [one for one in ranked if one.relevance > 0]


async def select(  # noqa: PLR0913 - what is found, how much of it, and how it is judged
    memory: Memory,
    candidates: Candidates,
    limit: int,
    rows: RecalledRows,
    choice: Choice,
    weigh: Weigh | None = None,
) -> list[Recalled]:
    """Choose among candidates and score them; behind them, of low trust what answers by itself.

    Low trust takes the room that is left, and no more than its share.
    """

    async def selected(columns: CandidateColumns, most: int) -> list[Recalled]:
        chosen: Sequence[Ranked] = await choose(columns, most, rows, choice)
        chosen = await weigh(chosen) if weigh else chosen
        chosen = answering(chosen) if columns is candidates.low else chosen
        return await score(memory, chosen, rows, most, rows.then)

    recalled = await selected(candidates.columns, limit)
    if candidates.low and (most := low_trust_room(len(recalled), limit)):
        recalled += await selected(candidates.low, most)
    return recalled


async def choose(
    candidates: CandidateColumns, limit: int, rows: RecalledRows, choice: Choice
) -> list[Ranked]:
    """Choose among the candidates of a query and load them; outdated episodes come last.

    The others are ranked anew without them: an outdated episode may come so near that it hides
    what replaced it. Whole episodes are left out beside pieces of them.
    """
    columns, outdated = candidates, list[Ranked]()
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
        columns = candidates.without({one.ref.id for one in outdated})


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
