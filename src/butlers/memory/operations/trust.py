"""What a person decides: what is in quarantine, and taking back what came through a source."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import AwareDatetime

from butlers.memory.flows import quarantine as holding
from butlers.memory.flows import undo as undoing
from butlers.memory.flows.undo_plan import UndoReport, UndoSource
from butlers.memory.operations import fields
from butlers.memory.operations.context import OperationContext
from butlers.memory.operations.results import Instant, MemoryKind
from butlers.memory.operations.table import OPERATIONS
from butlers.operation import Input, OperationEffect, Output, Route

_BY_A_PERSON = {
    door: "only a person decides it, at a terminal or signed in" for door in ("mcp", "python")
}


class QuarantinedMemory(Output):
    """A memory in quarantine, and why."""

    memory_type: MemoryKind
    id: UUID
    content: str
    subject: str | None
    predicate: str | None
    reason: str
    origin: str
    stored_by: str | None
    created_at: Instant


class Released(Output):
    """Whether a memory was let out of quarantine."""

    accepted: bool


class Rejected(Output):
    """Whether a memory in quarantine was forgotten."""

    rejected: bool


class Undone(Output):
    """What an undo did, or would do."""

    applied: bool
    episodes: int
    facts: int
    rules: int
    facts_restored: int
    forgotten_restored: int
    confirmations: int
    marks: int
    links: int
    proposals: int
    entities: int
    entities_left: int
    memories: list[dict[str, Any]]


class AskedQuarantine(Input):
    """How many."""

    limit: Annotated[int, *fields.within(1, 1000)] = 100
    """Most memories to list."""


@OPERATIONS.add(
    output=list[QuarantinedMemory],
    command="quarantine",
    left_out=_BY_A_PERSON,
    example="quarantine",
    routes=(Route("GET", "/quarantine", wraps="held"),),
)
async def list_quarantine(ctx: OperationContext, params: AskedQuarantine) -> list[dict[str, Any]]:
    """List what programs stored and nobody is told of until a person has judged it.

    Suspicious memories wait here: instructions to whoever reads them, hidden text, forged lines of
    a context, floods. Returns each with the reason, the longest waiting first.
    """
    return await holding.find_held(ctx.memory, params.limit, ctx.lineage)


class Judge(fields.Reference):
    """Which memory in quarantine, by its id."""


@OPERATIONS.add(
    output=Released,
    effect=OperationEffect.WRITES,
    is_maintenance=True,
    command="release",
    left_out=_BY_A_PERSON,
    example="release 1f0c9a77",
    routes=(Route("POST", "/quarantine/{memory_id}/accept"),),
)
async def accept_quarantined(ctx: OperationContext, params: Judge) -> bool:
    """Let a memory out of quarantine: it is found, told and consolidated as any other.

    A fact takes the place of the one that holds its key. Only a person may do so.
    Returns {accepted}: false when it does not wait.
    """
    ref = await ctx.must_find(params.memory_id, params.memory_type)
    return await holding.accept_held(ctx.memory, ref, ctx.lineage)


@OPERATIONS.add(
    output=Rejected,
    effect=OperationEffect.WRITES,
    is_maintenance=True,
    command="reject",
    left_out=_BY_A_PERSON,
    example="reject 1f0c9a77",
    routes=(Route("POST", "/quarantine/{memory_id}/reject"),),
)
async def reject_quarantined(ctx: OperationContext, params: Judge) -> bool:
    """Forget a memory that waits in quarantine. Only a person may do so.

    Restored, it would wait again. Returns {rejected}: false when it does not wait.
    """
    ref = await ctx.must_find(params.memory_id, params.memory_type)
    return await holding.reject_held(ctx.memory, ref, ctx.lineage)


class UndoInput(Input):
    """Where what is taken back came from; token, session and since narrow each other down."""

    token: Annotated[str, fields.longest(200)] | None = None
    """The token's id, as `butlers token list` shows it."""
    session: Annotated[str, fields.longest(200)] | None = None
    """The session's id, as its agent names it."""
    episode: fields.Uuid | None = None
    """An episode, with whatever was drawn from it."""
    since: AwareDatetime | None = None
    """Everything from this instant on."""
    apply: bool = False
    """Whether to do it; left out, it is only told what would be done."""


@OPERATIONS.add(
    output=Undone,
    effect=OperationEffect.WRITES,
    is_maintenance=True,
    command="undo",
    left_out=_BY_A_PERSON,
    example="undo --token 3f2b8a4e",
    routes=(Route("POST", "/undo"),),
)
async def undo_source(ctx: OperationContext, params: UndoInput) -> UndoReport:
    """Take back what came through a token, in a session, from an episode or since a time.

    Shows what it would do; with apply it does it, at once or not at all: what was stored there and
    whatever was drawn from it is forgotten, what it replaced holds again, and its confirmations,
    marks, links and changes of entities are no more. Only a person may do so.
    Returns how many of each, and the first memories it concerns.
    """
    source = UndoSource(params.token, params.session, params.episode, params.since)
    do = undoing.undo_source if params.apply else undoing.preview_undo
    return await do(ctx.memory, source, ctx.lineage)
