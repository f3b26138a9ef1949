"""Operations on memories in doubt and on conflicting facts."""

from typing import Annotated, Any, Literal
from uuid import UUID

from butlers.memory.flows import conflicts as settling
from butlers.memory.flows import doubts
from butlers.memory.flows.browse import Page
from butlers.memory.model import Holds, Settlement
from butlers.memory.operations import input_fields
from butlers.memory.operations.input_fields import Limited
from butlers.memory.operations.listing import PageInput
from butlers.memory.operations.operation_context import (
    OPERATIONS,
    OperationContext,
    maintains,
    writes,
)
from butlers.memory.operations.page_results import ItemPage
from butlers.memory.operations.results import Instant, MemoryKind, ReviewedMemory, single
from butlers.operation import Input, Output, Route


class FormerMemory(Output):
    """A memory that is no longer current, and its last event."""

    id: UUID
    memory_type: MemoryKind | None = None
    subject: str | None = None
    predicate: str | None = None
    content: str | None = None
    state: str
    event_type: str | None = None
    happened_at: Instant | None = None
    actor: str | None = None


class InDoubt(ReviewedMemory):
    """A memory in doubt, and what it depends on that is no longer current."""

    because: list[FormerMemory]


@OPERATIONS.add(
    output=list[InDoubt],
    command="conflicts doubts",
    routes=(Route("GET", "/doubts", wraps="items"),),
)
async def list_doubts(ctx: OperationContext, params: Limited) -> list[dict[str, Any]]:
    """List memories in doubt: they depend on something forgotten, superseded or expired.

    Keep a memory that still holds, or forget it. The doubt ends by itself when what it depends on
    is current again. Returns each memory with because: what it depends on and its last event.
    """
    return await doubts.list_doubts(ctx.memory, params.limit, ctx.lineage)


@writes(
    command="conflicts keep",
    output=single("kept", "Whether the memory was in doubt and is no longer."),
    positional=("memory_type",),
    example="conflicts keep 1f0c9a77",
    routes=(Route("POST", "/doubts/{memory_id}/keep"),),
)
async def keep(ctx: OperationContext, params: input_fields.Reference) -> bool:
    """Keep a memory in doubt: it no longer depends on what is not current.

    Returns {kept}: false if the memory was not in doubt.
    """
    ref = await ctx.must_find(params.memory_id, params.memory_type)
    return await doubts.clear_doubt(ctx.memory, ref, ctx.lineage)


class ConflictingFact(Output):
    """One fact of a conflict."""

    id: UUID
    subject: str
    predicate: str
    content: str
    scope: str
    origin: str
    trust: int
    created_at: Instant
    valid_from: Instant | None
    valid_to: Instant | None


class OpenConflict(Output):
    """Two facts that contradict each other or say the same, and why they seem to."""

    id: UUID
    kind: Literal["conflict", "same"]
    why: str
    score: float
    newer: ConflictingFact
    older: ConflictingFact
    created_at: Instant


class Settled(Output):
    """How a conflict was settled."""

    settled: str
    newer_id: UUID
    older_id: UUID


class PredicateValues(Output):
    """Whether a predicate has one value at a time or many."""

    predicate: str
    holds: Literal["one", "many"]


class KnownPredicate(PredicateValues):
    """A predicate that somebody set, or that was learned from a settled conflict."""

    told: bool
    told_by: str
    created_at: Instant


@OPERATIONS.add(
    output=ItemPage[OpenConflict], command="conflicts list", routes=(Route("GET", "/conflicts"),)
)
async def list_conflicts(ctx: OperationContext, params: PageInput) -> Page:
    """List open conflicts: facts that contradict each other or say the same, newest first.

    A conflict is detected when a fact is stored. Both facts stay current until you settle it.
    Returns {items, next_cursor}: each item with both facts and the reason.
    """
    return await settling.find_conflicts(ctx.memory, params.limit, params.cursor, ctx.lineage)


class Settle(Input):
    """A conflict and its settlement."""

    conflict_id: input_fields.Uuid
    """The id of the conflict."""
    holds: Annotated[Settlement, *input_fields.word(Settlement)]
    """newer, older, both, since (the newer from a time on, the older until then) or same."""
    since: input_fields.Boundary | None = None
    """When the newer fact began to hold: a day, or a time with its offset; only with since."""


@writes(
    output=Settled,
    command="conflicts settle",
    example="conflicts settle 3f2b8a4e-0000-4000-8000-000000000001 newer",
    routes=(Route("POST", "/conflicts/{conflict_id}/settle"),),
)
async def settle_conflict(ctx: OperationContext, params: Settle) -> dict[str, Any]:
    """Settle a conflict: say which of the two facts holds. The other becomes superseded.

    newer: it replaces the older fact. older: the newer fact never held. both: they do not
    contradict each other. since: each held in its time. same: they say the same; the older fact
    is confirmed. Returns {settled, newer_id, older_id}.
    """
    return await settling.settle(
        ctx.memory, params.conflict_id, params.holds, ctx.lineage, params.since
    )


class TellPredicate(Input):
    """A predicate and how many values it has."""

    predicate: input_fields.Predicate
    """The predicate, e.g. city."""
    holds: Annotated[Holds, *input_fields.word(Holds)]
    """one (a city) or many (likes)."""


@maintains(
    output=PredicateValues,
    command="conflicts predicate",
    example="conflicts predicate mascot one",
    routes=(Route("POST", "/predicates"),),
)
async def tell_predicate(ctx: OperationContext, params: TellPredicate) -> dict[str, Any]:
    """Set whether a predicate has one value at a time or many, for facts stored from now on.

    Common predicates are known; others are learned from settled conflicts.
    Returns {predicate, holds}.
    """
    return await settling.set_predicate(ctx.memory, params.predicate, params.holds, ctx.lineage)


@OPERATIONS.add(
    output=list[KnownPredicate],
    command="conflicts predicates",
    routes=(Route("GET", "/predicates", wraps="predicates"),),
)
async def list_predicates(ctx: OperationContext, params: Input) -> list[dict[str, Any]]:
    """List the predicates that were set, or learned from settled conflicts.

    Returns for each whether it has one value at a time or many, who set it, and when.
    """
    return await settling.find_predicates(ctx.memory, ctx.lineage)
