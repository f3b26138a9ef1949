"""Operations on decisions: what holds now, and what a person says of it."""

from typing import Any
from uuid import UUID

from butlers.memory.flows import decisions, projects
from butlers.memory.operations import input_fields
from butlers.memory.operations.input_fields import Limited
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext, writes
from butlers.memory.operations.results import Instant, single
from butlers.memory.policy.scopes import PROJECT
from butlers.operation import Input, Output, Route


class PastDecision(Output):
    """A decision that holds no longer."""

    id: UUID
    content: str
    until: Instant
    """When it was made past."""
    line: str
    """Its text with the day until which it held."""


class PresentDecision(Output):
    """A decision that holds, with those that it made past."""

    id: UUID
    content: str
    scope: str
    decided_at: Instant
    earlier: list[PastDecision]


class ListDecisions(Limited):
    """Which decisions to list."""

    project: input_fields.Name | None = None
    """A project's id or name. Without it: your project, or all."""


@OPERATIONS.add(
    output=list[PresentDecision],
    command="decisions list",
    example="decisions list --project api",
    routes=(Route("GET", "/decisions", wraps="items"),),
)
async def list_decisions(ctx: OperationContext, params: ListDecisions) -> list[dict[str, Any]]:
    """List the decisions of sessions that hold, newest first.

    Under each are the earlier ones that it made past. If one was marked past by mistake, restore
    it with restore_decision. Returns each decision with earlier: the past ones.
    """
    if params.project is None:
        scope = await ctx.seen(None)
    else:
        known = await projects.get_project(ctx.memory, params.project, ctx.lineage)
        scope = PROJECT + str(known["id"])
    return await decisions.list_decisions(ctx.memory, scope, params.limit, ctx.lineage)


class DecisionInput(Input):
    """A decision."""

    memory_id: input_fields.Id
    """Its id, or at least the first 6 digits."""


@writes(
    output=single("reinstated", "Whether the decision was past and holds again."),
    command="decisions restore",
    example="decisions restore 1f0c9a77",
    routes=(Route("POST", "/decisions/{memory_id}/restore"),),
)
async def restore_decision(ctx: OperationContext, params: DecisionInput) -> bool:
    """Let a past decision hold again; the later one that made it past does not do so again.

    Returns {reinstated}: false if it is not a past decision.
    """
    ref = await ctx.must_find(params.memory_id, "episode")
    return await decisions.restore_decision(ctx.memory, ref.id, ctx.lineage)


class RetireDecision(DecisionInput):
    """A decision to mark as past."""

    by: input_fields.Id | None = None
    """The later decision that replaced it, if there is one."""


@writes(
    output=single("retired", "Whether the decision held and is past now."),
    command="decisions retire",
    example="decisions retire 1f0c9a77",
    routes=(Route("POST", "/decisions/{memory_id}/retire"),),
)
async def retire_decision(ctx: OperationContext, params: RetireDecision) -> bool:
    """Mark a decision as past: it is no longer told, except where somebody asks about the past.

    Returns {retired}: false if it is not a decision that holds.
    """
    ref = await ctx.must_find(params.memory_id, "episode")
    later = await ctx.must_find(params.by, "episode") if params.by else None
    return await decisions.retire_decision(
        ctx.memory, ref.id, later.id if later else None, ctx.lineage
    )
