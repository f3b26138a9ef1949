"""Build the context: the block of memories injected into an agent's prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from typing import Any

from butlers.db.postgres import Row
from butlers.errors import InvalidInput
from butlers.kernel.token_count import count_tokens
from butlers.memory.candidates import CandidateColumns
from butlers.memory.flows import recall
from butlers.memory.flows.candidates import CandidateQuery, Candidates, find_candidates
from butlers.memory.flows.context_lines import (
    episode_as_line,
    fact_as_line,
    low_trust_offers,
    rule_as_line,
)
from butlers.memory.flows.opening import MAX_STANDING, opening_offers
from butlers.memory.flows.recall import Recalled, RecalledRows
from butlers.memory.handle import Memory
from butlers.memory.model import NOW, Lineage, MemoryRef, MemoryType, Then
from butlers.memory.policy import context, scopes
from butlers.memory.policy.context import Block, ContextLine, ContextSection, Offer
from butlers.memory.policy.excerpt import without_repeats
from butlers.memory.policy.ranker import Ranked
from butlers.memory.policy.trust import apart, order_rules_by_trust
from butlers.memory.store import rules

MAX_BUDGET = 1_000_000
_KNOWLEDGE = (MemoryType.FACT, MemoryType.RULE)
# A line has about so many tokens at least: how many memories are loaded for a budget.
_TOKENS_PER_LINE = 20


@dataclass(frozen=True, slots=True)
class ContextQuery:
    """What a context is built for: a prompt to a butler, within a token budget."""

    prompt: str
    scope: str | None = None
    """Which memories may be in it; None for all that the caller sees."""
    token_budget: int | None = None
    then: Then = NOW
    opening: bool = False
    """Whether a session opens: the prompt is not read then."""


@dataclass(frozen=True, slots=True)
class Context:
    """The block, and why each line was considered."""

    block: Block
    recalled: dict[MemoryRef, Recalled]
    offers: list[Offer]
    token_budget: int

    @property
    def text(self) -> str:
        """The text that an agent is given."""
        return self.block.text

    def as_dict(self) -> dict[str, Any]:
        """Return the text, its length and the memory of each line, as JSON values."""
        included = [
            {"section": section, "memory_type": line.ref.type, "id": line.ref.id}
            for section, lines in self.block.included.items()
            for line in lines
        ]
        return {"text": self.text, "tokens": self.block.tokens, "included": included}


async def build_context(
    memory: Memory, wanted: ContextQuery, lineage: Lineage, *, counted: bool = True
) -> Context:
    """Build what a butler should know before it answers a prompt, within the budget.

    The memories in it count as used, unless `counted` is false or the query asks about the past.
    A budget beyond the limits is refused.
    """
    default = memory.settings.retrieval.context_token_budget
    budget = default if wanted.token_budget is None else wanted.token_budget
    if not 0 <= budget <= MAX_BUDGET:
        raise InvalidInput(f"token_budget: found {budget}; valid is 0 to {MAX_BUDGET}")
    scope = scopes.checked("butler", wanted.scope) if wanted.scope else None
    build = _open if wanted.opening else _answer
    recalled, offers = await build(memory, replace(wanted, scope=scope), budget, lineage)
    block = context.render(offers, budget, context.notice(wanted.then))
    if counted and wanted.then == NOW:
        included = [line.ref for lines in block.included.values() for line in lines]
        memory.uses.count(lineage.tenant_id, included, memory.now())
    return Context(block, {one.ref: one for one in recalled}, offers, budget)


async def _open(
    memory: Memory, wanted: ContextQuery, _: int, lineage: Lineage
) -> tuple[list[Recalled], list[Offer]]:
    """Offer what a session starts with."""
    async with memory.transaction(lineage) as tx:
        return [], await opening_offers(tx, memory, wanted.scope, wanted.then)


async def _answer(
    memory: Memory, wanted: ContextQuery, budget: int, lineage: Lineage
) -> tuple[list[Recalled], list[Offer]]:
    """Offer what answers a prompt, and the standing rules."""
    least = memory.settings.facts.retrieval_confidence_threshold
    query = CandidateQuery(
        wanted.prompt, scope=wanted.scope, min_confidence=least, then=wanted.then
    )
    candidates = await find_candidates(memory, query, lineage, recall.DEPTH)
    recalled = await _recall(memory, wanted, budget, candidates, lineage)
    standing = await _load_standing(memory, query, lineage)
    return recalled, _offers(memory, recalled, standing, candidates.columns.header.words)


async def _recall(
    memory: Memory, wanted: ContextQuery, budget: int, candidates: Candidates, lineage: Lineage
) -> list[Recalled]:
    """Recall what answers the prompt, as many as the budget may hold, in the order of recall.

    All compete, and facts and rules also by themselves: an episode often comes nearer to a prompt
    than the fact that matters. A prompt that only acknowledges gets nothing.
    """
    if candidates.question.acknowledges:
        return []
    limit = memory.settings.retrieval.default_limit
    most = min(max(limit, budget // _TOKENS_PER_LINE), recall.DEPTH)
    everything = tuple(MemoryType) if memory.settings.context.episodes_share else _KNOWLEDGE

    def choice(columns: CandidateColumns) -> list[Ranked]:
        competing = columns.only(*everything)
        together = candidates.ranked(competing)
        chosen = recall.answering(together)
        for some in map(columns.only, _KNOWLEDGE):
            # Signals compare candidates with each other: some of them are ranked anew.
            ranked = together if some.ids == competing.ids else candidates.ranked(some)
            chosen += recall.answering(ranked)
        first: dict[MemoryRef, Ranked] = {}
        for one in sorted(chosen, key=lambda one: -one.relevance):
            first.setdefault(one.ref, one)
        return list(first.values())

    rows = RecalledRows(memory, lineage, wanted.then)
    recalled = await recall.select(memory, candidates, most, rows, choice)
    return [one for one in recalled if not one.row.get("outdated_by")]


async def _load_standing(memory: Memory, query: CandidateQuery, lineage: Lineage) -> list[Row]:
    """Load the standing rules; none where the query asks what was believed then."""
    if query.then.known_at:
        return []
    async with memory.transaction(lineage) as tx:
        return await rules.find_current(
            tx, now=memory.now(), scope=query.scope, least=query.min_confidence, limit=MAX_STANDING
        )


def _offers(
    memory: Memory,
    recalled: Sequence[Recalled],
    standing: Sequence[Row],
    words: Sequence[str],
) -> list[Offer]:
    """Offer each section its lines: what answers first, then standing rules; last low trust."""
    shares = memory.settings.context
    recalled, low = apart(recalled, lambda one: one.row["trust"])
    standing, low_rules = apart(standing, itemgetter("trust"))
    past = [one for one in recalled if one.ref.type is MemoryType.EPISODE]
    different = {past[n].ref for n in without_repeats([one.row["content"].lower() for one in past])}
    shown = [one for one in recalled if one.ref in different or one.ref.type in _KNOWLEDGE]
    orders = {one.ref.id: order for order, one in enumerate(shown)}
    rows = {kind: [one.row for one in shown if one.ref.type is kind] for kind in MemoryType}
    known = {one.ref.id for one in recalled}
    rules = rows[MemoryType.RULE] + [row for row in standing if row["id"] not in known]
    # Recalled rules come by score, and sorting is stable: by maturity, then by score.
    rules.sort(key=lambda row: context.maturity_order(row["maturity"]))
    rules = order_rules_by_trust(rules)
    known |= {one.ref.id for one in low}
    less = [*(one.row for one in low), *(row for row in low_rules if row["id"] not in known)]
    others = len(shown) + len(rules) - len(rows[MemoryType.RULE])
    return [
        Offer(
            ContextSection.FACTS,
            shares.facts_share,
            [fact_as_line(row, orders[row["id"]]) for row in rows[MemoryType.FACT]],
        ),
        Offer(
            ContextSection.RULES,
            shares.rules_share,
            [rule_as_line(row, orders.get(row["id"], context.LAST)) for row in rules],
        ),
        Offer(
            ContextSection.EPISODES,
            shares.episodes_share,
            [episode_as_line(row, orders[row["id"]], words) for row in rows[MemoryType.EPISODE]],
        ),
        *low_trust_offers(less, others, recall.DEPTH, words),
    ]


async def preview_context(memory: Memory, wanted: ContextQuery, lineage: Lineage) -> dict[str, Any]:
    """Build the same block as `build_context`, taken apart; nothing counts as used."""
    built = await build_context(memory, wanted, lineage, counted=False)
    return {
        "text": built.text,
        "tokens": built.block.tokens,
        "token_budget": built.token_budget,
        "sections": [_section(built, offer) for offer in built.offers],
    }


def _section(built: Context, offer: Offer) -> dict[str, Any]:
    included = built.block.included[offer.section]
    heading = count_tokens(f"## {offer.section}\n") if included else 0
    lines = _lines(included, built.recalled)
    return {
        "heading": offer.section,
        "share": offer.share,
        "token_share": int(built.token_budget * offer.share),
        "tokens": heading + sum(line["tokens"] for line in lines),
        "included": lines,
        "left_out": _lines(built.block.left_out[offer.section], built.recalled),
    }


def _lines(
    lines: Sequence[ContextLine], recalled: Mapping[MemoryRef, Recalled]
) -> list[dict[str, Any]]:
    return [
        {
            "memory_type": line.ref.type,
            "id": str(line.ref.id),
            "text": line.text.rstrip("\n"),
            "tokens": count_tokens(line.text),
            **_why(line.ref, recalled.get(line.ref)),
        }
        for line in lines
    ]


def _why(ref: MemoryRef, one: Recalled | None) -> dict[str, Any]:
    """Say why a memory is there: its score, or that it is always included."""
    if one is None:
        reason = "recent" if ref.type is MemoryType.EPISODE else "standing"
        return {"reason": reason, "composite_score": None, "score_parts": None}
    parts = asdict(one.parts)
    return {"reason": "recalled", "composite_score": one.composite_score, "score_parts": parts}
