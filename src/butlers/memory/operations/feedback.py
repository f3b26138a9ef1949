"""Operations that confirm, mark, forget, restore and link memories."""

from typing import Annotated, Any

from butlers.memory.flows import feedback
from butlers.memory.flows import forget as forgetting
from butlers.memory.flows import links as linkage
from butlers.memory.model import Direction, EventSubject, Relation
from butlers.memory.operations import input_fields
from butlers.memory.operations.operation_context import (
    OPERATIONS,
    OperationContext,
    routes_of,
    writes,
)
from butlers.memory.operations.results import Forgetting, LinkedMemories, MarkedRule, single
from butlers.memory.policy.inputs import MAX_REASON
from butlers.operation import Input, Route, Toolset


class ConfirmInput(input_fields.Reference):
    """A fact or rule, by its id."""

    memory_type: input_fields.Confirmable | None = None
    """The type of the memory; an episode cannot be confirmed."""


@writes(
    command="memory confirm",
    output=single("confirmed", "Whether the memory was confirmed."),
    keeps_scopes=True,
    toolset=Toolset.STANDARD,
    tool_needs=("memory_type",),
    positional=("memory_type",),
    example="memory confirm 1f0c9a77",
    routes=routes_of("fact", "rule", action="/confirm"),
)
async def confirm(ctx: OperationContext, params: ConfirmInput) -> bool:
    """Confirm that a fact or rule still holds. Its confidence is full again.

    Use it when the user or other evidence supports a memory.
    Returns {confirmed}: false if there is no such current memory.
    """
    ref = await ctx.find(params.memory_id, params.memory_type)
    if ref is None:
        return False
    return await feedback.confirm_memory(ctx.memory, ref.type, ref.id, ctx.lineage)


class MarkRule(input_fields.DetailInput):
    """A rule that helped or did harm."""

    rule_id: input_fields.RuleId
    context: input_fields.Document | None = None
    """What the rule was applied to, as a JSON object, for later review."""


@writes(
    output=MarkedRule,
    keeps_scopes=True,
    toolset=Toolset.STANDARD,
    command="memory helpful",
    positional=("context",),
    example="memory helpful 1f0c9a77",
    routes=(Route("POST", "/rules/{rule_id}/helpful"),),
)
async def mark_helpful(ctx: OperationContext, params: MarkRule) -> dict[str, Any]:
    """Mark a rule as helpful: it is confirmed, and enough marks raise its maturity.

    Returns the rule with its new counts, effectiveness_score and maturity.
    """
    rule = await ctx.known_id("rule_id", params.rule_id, EventSubject.RULE)
    return await feedback.mark_helpful(ctx.memory, rule, ctx.lineage, params.context)


class MarkHarmful(MarkRule):
    """A rule that did harm."""

    reason: Annotated[str, input_fields.longest(MAX_REASON)] | None = None
    """The harm it did, in a sentence."""


@writes(
    output=MarkedRule,
    keeps_scopes=True,
    toolset=Toolset.STANDARD,
    command="memory harmful",
    positional=("reason", "context"),
    example='memory harmful 1f0c9a77 --reason "a guest felt spied upon"',
    routes=(Route("POST", "/rules/{rule_id}/harmful"),),
)
async def mark_harmful(ctx: OperationContext, params: MarkHarmful) -> dict[str, Any]:
    """Mark a rule as harmful, with the reason. It weighs four times a helpful mark.

    A rule with too much harm becomes an anti-pattern: a warning that names the reasons. A rule
    that a person stated is marked "reported harmful" instead, until a person decides.
    Returns the rule with its new counts, effectiveness_score and maturity.
    """
    rule = await ctx.known_id("rule_id", params.rule_id, EventSubject.RULE)
    return await feedback.mark_harmful(ctx.memory, rule, params.reason, ctx.lineage, params.context)


class Forget(input_fields.Reference):
    """One memory, by its id."""

    with_sources: bool = False
    """Also forget the episodes it was drawn from, unless another current memory was too."""


@writes(
    output=Forgetting,
    keeps_scopes=True,
    toolset=Toolset.CORE,
    tool_needs=("memory_type",),
    tool_without=("with_sources",),
    positional=("memory_type",),
    example="forget fact 1f0c9a77",
    routes=routes_of("fact", "rule", "episode", action="/forget"),
)
async def forget(ctx: OperationContext, params: Forget) -> forgetting.Forgotten:
    """Forget a memory: it is no longer found, but its history stays for audit.

    Use it when the user asks to forget something, or when it was never true. To correct a fact,
    store it again instead.
    Returns {forgotten}: false if there is no such memory or it was forgotten before. May also
    return sources (episodes that still say it) and in_doubt (memories that depend on it: ask the
    user about them).
    """
    ref = await ctx.find(params.memory_id, params.memory_type)
    if ref is None:
        return forgetting.Forgotten(forgotten=False)
    return await forgetting.forget_memory(
        ctx.memory, ref.type, ref.id, ctx.lineage, with_sources=params.with_sources
    )


@writes(
    command="memory restore",
    output=single("restored", "Whether this call restored the memory."),
    keeps_scopes=True,
    positional=("memory_type",),
    example="memory restore 1f0c9a77",
    routes=routes_of("fact", "rule", "episode", action="/restore"),
)
async def restore(ctx: OperationContext, params: input_fields.Reference) -> bool:
    """Restore a forgotten memory to the state it had before.

    An episode can also be restored from the bin, until the bin is emptied. A fact is refused if
    another fact has its key now. Returns {restored}: false if no such memory was forgotten.
    """
    ref = await ctx.find(params.memory_id, params.memory_type)
    if ref is None:
        return False
    return await forgetting.restore_memory(ctx.memory, ref.type, ref.id, ctx.lineage)


class CreateLink(Input):
    """Two memories and their relation."""

    source_id: input_fields.Id
    """The memory that the link starts from."""
    relation: Annotated[Relation, *input_fields.word(Relation)]
    """derived_from, supports, contradicts, supersedes, related_to, or depends_on: the source is in
    doubt when the target is no longer current."""
    target_id: input_fields.Id
    """The memory that the link points to."""


@writes(
    output=single("linked", "Whether this call linked the two memories."),
    keeps_scopes=True,
    command="memory link",
    example="memory link 1f0c9a77 supports 80e1b2c4",
    routes=(Route("POST", "/links", 201),),
)
async def create_link(ctx: OperationContext, params: CreateLink) -> bool:
    """Link two memories of any type: one is derived from, supports or contradicts the other.

    Returns {linked}: false if the same link exists.
    """
    source = await ctx.must_find(params.source_id)
    target = await ctx.must_find(params.target_id, to_read=True)
    return await linkage.create_link(
        ctx.memory, source.type, source.id, target.type, target.id, params.relation, ctx.lineage
    )


class GetLinks(input_fields.Reference):
    """A memory, and the direction of its links."""

    direction: Annotated[Direction, *input_fields.word(Direction)] = Direction.BOTH
    """outgoing (from the memory), incoming (to the memory) or both."""


@OPERATIONS.add(
    output=list[LinkedMemories],
    keeps_scopes=True,
    command="memory links",
    positional=("direction",),
    example="memory links 1f0c9a77 --direction incoming",
    routes=(Route("GET", "/memories/{memory_id}/links"),),
)
async def get_links(ctx: OperationContext, params: GetLinks) -> list[dict[str, Any]]:
    """List the links of a memory, oldest first, at most a thousand.

    Returns links: source_type, source_id, relation, target_type, target_id.
    """
    ref = await ctx.must_find(params.memory_id, params.memory_type, to_read=True)
    links = await linkage.get_links(ctx.memory, ref.type, ref.id, params.direction, ctx.lineage)
    return await ctx.readable(links, "source_id", "target_id")
