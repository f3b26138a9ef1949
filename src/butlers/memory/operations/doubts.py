"""What is in doubt because what it rests on fell, and what is to become of it."""

from typing import Annotated, Any
from uuid import UUID

from butlers.memory.flows import doubts
from butlers.memory.operations import fields
from butlers.memory.operations.context import OperationContext
from butlers.memory.operations.results import Instant, MemoryKind
from butlers.memory.operations.table import OPERATIONS
from butlers.operation import Input, OperationEffect, Output, Route


class Fallen(Output):
    """What does not hold any more, and what happened to it last."""

    id: UUID
    memory_type: MemoryKind | None = None
    subject: str | None = None
    predicate: str | None = None
    content: str | None = None
    state: str
    event_type: str | None = None
    happened_at: Instant | None = None
    actor: str | None = None


class InDoubt(Output):
    """A memory in doubt, and what it rests on that does not hold."""

    memory_type: MemoryKind
    id: UUID
    subject: str | None
    predicate: str | None
    content: str
    created_at: Instant
    because: list[Fallen]


class DoubtCleared(Output):
    """Whether a memory was in doubt and stands on its own now."""

    kept: bool


class AskedDoubts(Input):
    """How many."""

    limit: Annotated[int, *fields.within(1, doubts.MOST)] = 100
    """Most memories to list."""


@OPERATIONS.add(
    output=list[InDoubt],
    command="doubts",
    example="doubts",
    routes=(Route("GET", "/doubts", wraps="items"),),
)
async def list_doubts(ctx: OperationContext, params: AskedDoubts) -> list[dict[str, Any]]:
    """List what is in doubt: it depends on something that was forgotten, replaced or has faded.

    Each can be kept, if it holds all the same, or forgotten; it is in doubt no more once its ground
    holds again. Returns each with because: what fell, and what happened to that.
    """
    return await doubts.list_doubts(ctx.memory, params.limit, ctx.lineage)


class Keep(fields.Reference):
    """A fact or rule in doubt, by its id."""


@OPERATIONS.add(
    output=DoubtCleared,
    effect=OperationEffect.WRITES,
    positional=("memory_type",),
    example="keep 1f0c9a77",
    routes=(Route("POST", "/doubts/{memory_id}/keep"),),
)
async def keep(ctx: OperationContext, params: Keep) -> bool:
    """Say that a memory in doubt holds all the same: it depends no more on what fell.

    Returns {kept}: false if it was not in doubt.
    """
    ref = await ctx.must_find(params.memory_id, params.memory_type)
    return await doubts.keep_doubted(ctx.memory, ref, ctx.lineage)
