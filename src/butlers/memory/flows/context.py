"""Building the context block that an agent starts with."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from butlers.db.postgres import Row
from butlers.errors import InvalidInput
from butlers.kernel.tokens import count_tokens
from butlers.memory.flows import recall
from butlers.memory.flows.candidates import CandidateQuery, find_candidates
from butlers.memory.flows.recall import Recalled
from butlers.memory.handle import Memory
from butlers.memory.model import NOW, Lineage, MemoryRef, MemoryType, Then
from butlers.memory.policy import context, scopes
from butlers.memory.policy.context import Block, ContextLine, ContextSection, Offer
from butlers.memory.policy.trust import behind_what_people_said, standing_words
from butlers.memory.store import episodes, rules

MAX_BUDGET = 1_000_000
MAX_STANDING = 50
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
    then: Then = NOW,
    *,
    counted: bool = True,
    opening: bool = False,
) -> Context:
    """What the butler should know before it answers a prompt, within the budget.

    What it tells is counted as used, unless told not to or asked of the past. When a session opens
    nothing is asked yet: what is nearest to the prompt is told then, whether or not it answers.
    """
    budget = _checked_budget(memory, token_budget)
    butler = scopes.checked("butler", butler)
    settings = memory.settings
    least = settings.facts.retrieval_confidence_threshold
    query = CandidateQuery(prompt, scope=butler, min_confidence=least, then=then)
    recalled = await _recalled(memory, query, lineage, gated=not opening)
    offers = _offers(memory, recalled, await _load_always_injected(memory, query, lineage))
    block = context.render(offers, budget, context.notice(then))
    if counted and not then:
        shown = [line.ref for lines in block.included.values() for line in lines]
        memory.uses.count(lineage.tenant_id, shown, memory.now())
    return Context(block, {one.ref: one for one in recalled}, offers, budget)


@dataclass(frozen=True, slots=True)
class _AlwaysInjected:
    """What is told whatever the prompt: rules that always hold, and what happened last."""

    rules: list[Row]
    episodes: list[Row]


async def _recalled(
    memory: Memory, query: CandidateQuery, lineage: Lineage, *, gated: bool
) -> list[Recalled]:
    """What answers the prompt, each kind judged by itself: a rule is not as near as a fact."""
    limit = memory.settings.retrieval.default_limit
    sight = await find_candidates(memory, query, lineage, max(limit, recall.DEPTH))
    facts, rules = (recall.best_of(sight, kind, limit, gated=gated) for kind in _KNOWLEDGE)
    known = sorted(facts + rules, key=lambda one: -one.relevance)[:limit]
    past = recall.best_of(sight, MemoryType.EPISODE, _most_episodes(memory), gated=True)
    found = known + past
    told = await recall.tell(memory, found, lineage, len(found), query.then)
    return [one for one in told if not one.row.get("outdated_by")]


async def _load_always_injected(
    memory: Memory, query: CandidateQuery, lineage: Lineage
) -> _AlwaysInjected:
    """Which rules stood at a time nobody knows: asked what was believed then, there are none."""
    then, times = query.then, {"now": memory.now(), "scope": query.scope}
    async with memory.transaction(lineage) as tx:
        standing = await rules.find_standing(
            tx, **times, least=query.min_confidence, limit=0 if then.known_at else MAX_STANDING
        )
        recent = await episodes.find_recent(
            tx, **times, **asdict(then), limit=_most_episodes(memory)
        )
    return _AlwaysInjected(standing, recent)


def _most_episodes(memory: Memory) -> int:
    return memory.settings.context.max_episodes if memory.settings.context.episodes_share else 0


def _offers(memory: Memory, recalled: Sequence[Recalled], standing: _AlwaysInjected) -> list[Offer]:
    """What each section would say: what answers first, then what stands or is recent."""
    shares = memory.settings.context
    known = {one.ref.id for one in recalled}
    told = {kind: [one.row for one in recalled if one.ref.type is kind] for kind in MemoryType}
    wise = told[MemoryType.RULE] + [row for row in standing.rules if row["id"] not in known]
    # What answers stands in order of its score, and sorting is stable: by maturity, then so.
    wise.sort(key=lambda row: context.maturity_order(row["maturity"]))
    wise = behind_what_people_said(wise)
    past = told[MemoryType.EPISODE]
    past += [row for row in standing.episodes if row["id"] not in known]
    happened = [_episode(row) for row in past[: _most_episodes(memory)]]
    return [
        Offer(
            ContextSection.FACTS, shares.facts_share, [_fact(row) for row in told[MemoryType.FACT]]
        ),
        Offer(ContextSection.RULES, shares.rules_share, [_rule(row) for row in wise]),
        Offer(ContextSection.EPISODES, shares.episodes_share, happened),
    ]


def _fact(row: Row) -> ContextLine:
    text = context.fact_line(
        row["subject"],
        row["predicate"],
        row["content"],
        row["effective_confidence"],
        origin=standing_words(row),
    )
    return ContextLine(MemoryRef(MemoryType.FACT, row["id"]), text)


def _rule(row: Row) -> ContextLine:
    said = row["content"], row["maturity"], row["effectiveness_score"]
    text = context.rule_line(*said, origin=standing_words(row))
    return ContextLine(MemoryRef(MemoryType.RULE, row["id"]), text)


def _episode(row: Row) -> ContextLine:
    ref = MemoryRef(MemoryType.EPISODE, row["id"])
    text = context.episode_line(row["content"], row["created_at"], origin=standing_words(row))
    return ContextLine(ref, text)


def _checked_budget(memory: Memory, token_budget: int | None) -> int:
    default = memory.settings.retrieval.context_token_budget
    budget = default if token_budget is None else token_budget
    if not 0 <= budget <= MAX_BUDGET:
        raise InvalidInput(f"token_budget: found {budget}; valid is 0 to {MAX_BUDGET}")
    return budget


async def preview_context(  # noqa: PLR0913 - as build_context
    memory: Memory,
    prompt: str,
    butler: str,
    token_budget: int | None,
    lineage: Lineage,
    then: Then = NOW,
    *,
    opening: bool = False,
) -> dict[str, Any]:
    """The very block that `build_context` gives, with its parts; not counted as a use."""
    built = await build_context(
        memory, prompt, butler, token_budget, lineage, then, counted=False, opening=opening
    )
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
    """What a memory scored; one that stands or is recent is there whatever the prompt."""
    if one is None:
        reason = "recent" if ref.type is MemoryType.EPISODE else "standing"
        return {"reason": reason, "composite_score": None, "score_parts": None}
    parts = asdict(one.parts)
    return {"reason": "recalled", "composite_score": one.composite_score, "score_parts": parts}
