"""Build the few lines of memory that one prompt of an agent gets; often there are none."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.memory.candidates import CandidateColumns
from butlers.memory.flows import recall
from butlers.memory.flows.candidates import (
    ALL_TYPES,
    CandidateQuery,
    Candidates,
    find_candidates,
)
from butlers.memory.flows.context_lines import low_trust_offers, memory_as_line
from butlers.memory.flows.recall import Recalled, RecalledRows
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryRef, MemoryType, PieceKind
from butlers.memory.policy import context, focus, question
from butlers.memory.policy.changes import replaced_by
from butlers.memory.policy.context import Block, ContextLine, ContextSection, Offer
from butlers.memory.policy.decisions import past_line
from butlers.memory.policy.focus import Focused
from butlers.memory.policy.ranker import Ranked
from butlers.memory.policy.trust import apart
from butlers.memory.store import episodes

Weigh = Callable[[Sequence[UUID]], Awaitable[Mapping[UUID, float]]]
LEAST_USES = 3
"""How often a memory must have been given before its use counts."""
_LEAST_SESSION = 160
"""Characters of a whole session below which it was small talk."""
_READ = 24
"""How many memories are loaded for a prompt, of which a few are included."""
_KNOWLEDGE = (MemoryType.FACT, MemoryType.RULE)
_SECTIONS = {
    MemoryType.FACT: ContextSection.FACTS,
    MemoryType.RULE: ContextSection.RULES,
    MemoryType.EPISODE: ContextSection.EPISODES,
}


@dataclass(frozen=True, slots=True)
class PromptQuery:
    """A prompt, which memories it may get, and how many tokens of them."""

    prompt: str
    scope: str | None
    token_budget: int
    exclude: frozenset[UUID] = frozenset()
    """Memories that the session has already."""
    embedding_seconds: float | None = None
    """How long to wait for the prompt's vector before its words must do."""
    weigh: Weigh | None = None
    """By how much the use of memories so far changes how likely they bear on a prompt."""


@dataclass(frozen=True, slots=True)
class PromptContext:
    """The block of a prompt, why each memory is in it, and what came near."""

    block: Block
    chosen: tuple[Focused, ...] = ()
    """What bears on it, also what the session has already."""
    nearest: Mapping[MemoryRef, float] = field(default_factory=dict)
    """How likely the best of the others bear on it."""
    by_words: bool = False


async def build_prompt_context(
    memory: Memory, wanted: PromptQuery, lineage: Lineage
) -> PromptContext:
    """Build what bears on a prompt and is new to its session; it counts as used.

    Where a piece of a session answers, what was settled in that session comes with it.
    """
    if question.only_reacts(wanted.prompt):
        return PromptContext(context.render([], 0))
    least = memory.settings.facts.retrieval_confidence_threshold
    query = CandidateQuery(
        wanted.prompt,
        ALL_TYPES if memory.settings.context.episodes_share else _KNOWLEDGE,
        scope=wanted.scope,
        min_confidence=least,
        embedding_seconds=wanted.embedding_seconds,
    )
    candidates = await find_candidates(memory, query, lineage, recall.DEPTH)
    rows = RecalledRows(memory, lineage)
    ranked = candidates.ranked(candidates.columns)
    likely = focus.likelihoods_by_ref(ranked)
    recalled = await _recall(memory, candidates, ranked, rows, wanted.weigh)
    recalled, low = apart(recalled, lambda one: one.row["trust"])
    decided = await _load_decisions(memory, recalled, likely, rows)
    chosen = focus.in_order([_focused(one) for one in recalled], decided)
    fresh = _latest_first([one for one in chosen if one.id not in wanted.exclude], rows.loaded)
    words = candidates.columns.header.words
    offers = _offers(fresh, rows.loaded, words)
    # Low trust never stands alone where the session knows better already.
    if fresh or not chosen:
        less = [one.row for one in low if one.ref.id not in wanted.exclude]
        offers += low_trust_offers(less, len(fresh), focus.MOST_LINES, words)
        chosen += map(_focused, low)
    block = context.render(offers, wanted.token_budget)
    included = [line.ref for lines in block.included.values() for line in lines]
    memory.uses.count(lineage.tenant_id, included, memory.now())
    known = {one.ref for one in chosen}
    near = [ref for ref, value in likely.items() if focus.is_near(value) and ref not in known]
    others = {ref: likely[ref] for ref in sorted(near, key=lambda ref: -likely[ref])[:_READ]}
    return PromptContext(block, tuple(chosen), others, candidates.by_words)


async def _recall(
    memory: Memory,
    candidates: Candidates,
    ranked: Sequence[Ranked],
    rows: RecalledRows,
    weigh: Weigh | None,
) -> list[Recalled]:
    """Recall what clearly bears on the prompt; what was of use before comes first."""

    def choice(columns: CandidateColumns) -> list[Ranked]:
        is_whole = columns is candidates.columns
        return focus.bearing_on_prompt(ranked if is_whole else candidates.ranked(columns))

    async def weighed(chosen: Sequence[Ranked]) -> list[Ranked]:
        often = [one.ref.id for one in chosen if _is_used_often(rows.loaded.get(one.ref, {}))]
        factors = await weigh(often) if weigh and often else {}
        return focus.likely_enough(
            [one._replace(relevance=one.relevance * factors.get(one.ref.id, 1.0)) for one in chosen]
        )

    recalled = await recall.select(memory, candidates, _READ, rows, choice, weighed)
    return [one for one in recalled if not one.row.get("outdated_by") and _may_help(one.row)]


async def _load_decisions(
    memory: Memory,
    recalled: Sequence[Recalled],
    likely: Mapping[MemoryRef, float],
    rows: RecalledRows,
) -> Mapping[UUID, Sequence[Focused]]:
    """Load what is settled now, of this matter, in the sessions that the first pieces are of."""
    sessions = focus.leading_sessions([_focused(one) for one in recalled])
    if not sessions:
        return {}
    async with memory.transaction(rows.lineage) as tx:
        found = await episodes.find_decisions(tx, sessions=sessions, now=memory.now())
    settled = {MemoryRef(MemoryType.EPISODE, row["id"]): row for row in found}
    near = [
        ref
        for ref, row in settled.items()
        if row["replaces"] or focus.is_near(likely.get(ref, 0.0))
    ]
    decided = defaultdict[UUID, list[Focused]](list)
    for ref, loaded in (await rows.load(near, len(near))).items():
        session = settled[ref]["session_id"]
        decided[session].append(Focused(ref, 0.0, loaded["content"], session, PieceKind.DECISION))
    return decided


def _latest_first(chosen: Sequence[Focused], rows: Mapping[MemoryRef, Row]) -> list[Focused]:
    """Put what a later memory makes past behind the others, and say until when it held."""
    episodes = [one for one in chosen if one.ref.type is MemoryType.EPISODE]
    days = [rows[one.ref]["said_at"] or rows[one.ref]["created_at"] for one in episodes]
    past = replaced_by([(one.text, day) for one, day in zip(episodes, days, strict=True)])
    until = {episodes[old].ref: days[new] for old, new in past.items()}
    return sorted(
        (replace(one, until=until.get(one.ref)) for one in chosen), key=lambda one: bool(one.until)
    )


def _is_used_often(row: Mapping[str, Any]) -> bool:
    """Whether a memory was given so often that its use may say something."""
    return int(row.get("reference_count", 0)) >= LEAST_USES


def _may_help(row: Mapping[str, Any]) -> bool:
    """Whether a memory says something by itself: no list of files, no session without content."""
    if row.get("piece") is None and row.get("metadata", {}).get("session"):
        return len(row["content"]) >= _LEAST_SESSION
    return row.get("piece") != PieceKind.FILES


def _focused(one: Recalled) -> Focused:
    row = one.row
    session, piece = row.get("session_id"), row.get("piece")
    return Focused(one.ref, one.parts.relevance, row["content"], session, piece)


def _offers(
    chosen: Sequence[Focused], rows: Mapping[MemoryRef, Row], words: Sequence[str]
) -> list[Offer]:
    lines: dict[MemoryType, list[ContextLine]] = {kind: [] for kind in _SECTIONS}
    for order, one in enumerate(chosen):
        lines[one.ref.type].append(_line(one, rows[one.ref], order, words))
    return [Offer(section, 0.0, lines[kind]) for kind, section in _SECTIONS.items()]


def _line(one: Focused, row: Row, order: int, words: Sequence[str]) -> ContextLine:
    line = memory_as_line(row, order, words, most=focus.length_of(one, order))
    if one.until is None:
        return line
    said = past_line(line.text.removeprefix("- "), one.until.date())
    return replace(line, text=f"- {said}\n")
