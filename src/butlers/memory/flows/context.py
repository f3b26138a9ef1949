"""Building the context block that an agent starts with."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from butlers.db.postgres import Row
from butlers.errors import InvalidInput
from butlers.kernel.tokens import count_tokens
from butlers.memory.flows import recall
from butlers.memory.flows.recall import Recalled
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryRef, MemoryType
from butlers.memory.policy import context, inputs
from butlers.memory.policy.context import Block, Line, Offer, Section
from butlers.memory.store import episodes

MAX_BUDGET = 1_000_000
_KNOWLEDGE = (MemoryType.FACT, MemoryType.RULE)


@dataclass(frozen=True, slots=True)
class Context:
    """The block, and why each line was there to be chosen; of what, and within what."""

    block: Block
    recalled: dict[MemoryRef, Recalled]
    offers: list[Offer]
    token_budget: int

    @property
    def text(self) -> str:
        """What the agent is given."""
        return self.block.text

    def as_dict(self) -> dict[str, Any]:
        """The block, how long it is, and which memory each line of it is."""
        included = [
            {"section": section, "memory_type": line.ref.type, "id": line.ref.id}
            for section, lines in self.block.included.items()
            for line in lines
        ]
        return {"text": self.text, "tokens": self.block.tokens, "included": included}


async def build_context(  # noqa: PLR0913 - a preview differs in nothing but what it counts
    memory: Memory,
    prompt: str,
    butler: str,
    token_budget: int | None,
    lineage: Lineage,
    *,
    counted: bool = True,
) -> Context:
    """What the butler should know before it answers a prompt, within the budget.

    What it recalls is counted as used, unless told not to.
    """
    budget = _checked_budget(memory, token_budget)
    butler = inputs.checked_line("butler", butler, inputs.MAX_SCOPE)
    settings = memory.settings
    query = recall.Query(
        prompt,
        types=_KNOWLEDGE,
        scope=butler,
        min_confidence=settings.facts.retrieval_confidence_threshold,
    )
    limit = settings.retrieval.default_limit
    recalled = await recall.recall(memory, query, limit, lineage, counted=counted)
    recent = await _recent_episodes(memory, butler, lineage)
    offers = _offers(memory, recalled, recent)
    block = context.render(offers, budget)
    return Context(block, {one.ref: one for one in recalled}, offers, budget)


def _offers(memory: Memory, recalled: Sequence[Recalled], recent: Sequence[Row]) -> list[Offer]:
    shares = memory.settings.context
    facts = [one for one in recalled if one.ref.type is MemoryType.FACT]
    rules = [one for one in recalled if one.ref.type is MemoryType.RULE]
    # Recall is in order of score, and sorting is stable: by maturity, then by score.
    rules.sort(key=lambda one: context.maturity_order(one.row["maturity"]))
    return [
        Offer(Section.FACTS, shares.facts_share, [_fact(one) for one in facts]),
        Offer(Section.RULES, shares.rules_share, [_rule(one) for one in rules]),
        Offer(Section.EPISODES, shares.episodes_share, [_episode(row) for row in recent]),
    ]


async def _recent_episodes(memory: Memory, butler: str, lineage: Lineage) -> list[Row]:
    wanted = memory.settings.context.max_episodes
    if wanted == 0 or memory.settings.context.episodes_share == 0:
        return []
    async with memory.transaction(lineage) as tx:
        return await episodes.find_recent(tx, butler=butler, limit=wanted, now=memory.now())


def _fact(one: Recalled) -> Line:
    row = one.row
    text = context.fact_line(
        row["subject"], row["predicate"], row["content"], row["effective_confidence"]
    )
    return Line(one.ref, text)


def _rule(one: Recalled) -> Line:
    row = one.row
    text = context.rule_line(row["content"], row["maturity"], row["effectiveness_score"])
    return Line(one.ref, text)


def _episode(row: Row) -> Line:
    ref = MemoryRef(MemoryType.EPISODE, row["id"])
    return Line(ref, context.episode_line(row["content"], row["created_at"]))


def _checked_budget(memory: Memory, token_budget: int | None) -> int:
    default = memory.settings.retrieval.context_token_budget
    budget = default if token_budget is None else token_budget
    if not 0 <= budget <= MAX_BUDGET:
        raise InvalidInput(f"token_budget: found {budget}; valid is 0 to {MAX_BUDGET}")
    return budget


async def preview_context(
    memory: Memory, prompt: str, butler: str, token_budget: int | None, lineage: Lineage
) -> dict[str, Any]:
    """The very block that `build_context` gives, with its parts; not counted as a use."""
    built = await build_context(memory, prompt, butler, token_budget, lineage, counted=False)
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


def _lines(lines: Sequence[Line], recalled: Mapping[MemoryRef, Recalled]) -> list[dict[str, Any]]:
    return [
        {
            "memory_type": line.ref.type,
            "id": str(line.ref.id),
            "text": line.text.rstrip("\n"),
            "tokens": count_tokens(line.text),
            **_why(recalled.get(line.ref)),
        }
        for line in lines
    ]


def _why(one: Recalled | None) -> dict[str, Any]:
    """What a memory scored; an episode is there because it is recent, and has no score."""
    if one is None:
        return {"reason": "recent", "composite_score": None, "score_parts": None}
    parts = asdict(one.parts)
    return {"reason": "recalled", "composite_score": one.composite_score, "score_parts": parts}
