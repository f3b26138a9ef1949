"""Operations for a person: review quarantined memories, and undo a source."""

from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from butlers.memory.flows import quarantine as holding
from butlers.memory.flows import undo as undoing
from butlers.memory.flows.authority import must_decide
from butlers.memory.flows.undo_plan import UndoReport, UndoSource
from butlers.memory.operations import input_fields
from butlers.memory.operations.input_fields import Limited
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext, maintains
from butlers.memory.operations.results import ReviewedMemory, report, single
from butlers.operation import Input, Route

_BY_A_PERSON = dict.fromkeys(
    ("mcp", "python"), "only a person decides it, at a terminal or signed in"
)


class QuarantinedMemory(ReviewedMemory):
    """A quarantined memory and the reason."""

    reason: str
    origin: str
    stored_by: str | None


@OPERATIONS.add(
    output=list[QuarantinedMemory],
    command="quarantine list",
    left_out=_BY_A_PERSON,
    routes=(Route("GET", "/quarantine", wraps="held"),),
)
async def list_quarantine(ctx: OperationContext, params: Limited) -> list[dict[str, Any]]:
    """List quarantined memories waiting for your review.

    Suspicious memories from programs wait here and are not returned to anybody: instructions to
    the reader, hidden text, forged context lines, floods. Returns each with the reason, oldest
    first.
    """
    return await holding.find_quarantined(ctx.memory, params.limit, ctx.lineage)


@maintains(
    output=single("accepted", "Whether the memory was released from quarantine."),
    command="quarantine release",
    left_out=_BY_A_PERSON,
    example="quarantine release 1f0c9a77",
    routes=(Route("POST", "/quarantine/{memory_id}/accept"),),
)
async def accept_quarantined(ctx: OperationContext, params: input_fields.Reference) -> bool:
    """Release a memory from quarantine: it is found and consolidated like any other.

    A fact supersedes the current one under its key. Only a person may do this.
    Returns {accepted}: false if it is not in quarantine.
    """
    must_decide(ctx.lineage, "release what is in quarantine")
    ref = await ctx.must_find(params.memory_id, params.memory_type)
    return await holding.release_memory(ctx.memory, ref, ctx.lineage)


@maintains(
    output=single("rejected", "Whether the quarantined memory was forgotten."),
    command="quarantine reject",
    left_out=_BY_A_PERSON,
    example="quarantine reject 1f0c9a77",
    routes=(Route("POST", "/quarantine/{memory_id}/reject"),),
)
async def reject_quarantined(ctx: OperationContext, params: input_fields.Reference) -> bool:
    """Forget a quarantined memory. Only a person may do this.

    If you restore it, it is in quarantine again.
    Returns {rejected}: false if it is not in quarantine.
    """
    must_decide(ctx.lineage, "reject what is in quarantine")
    ref = await ctx.must_find(params.memory_id, params.memory_type)
    return await holding.reject_memory(ctx.memory, ref, ctx.lineage)


class UndoInput(Input):
    """The source to undo; token, session and since narrow each other down."""

    token: Annotated[str, input_fields.longest(200)] | None = None
    """The token's id, as `butlers token list` shows it."""
    session: Annotated[str, input_fields.longest(200)] | None = None
    """The session's id, as its agent names it."""
    episode: input_fields.Uuid | None = None
    """An episode, with everything drawn from it."""
    since: AwareDatetime | None = None
    """Everything from this time on."""
    also: Annotated[list[input_fields.Id], Field(max_length=100)] | None = None
    """Ids of memories that go too, of those listed in copies_possible."""
    apply: bool = False
    """Do it; without it you only see what would be done."""


@maintains(
    output=report(UndoReport),
    command="undo",
    left_out=_BY_A_PERSON,
    example="undo --token 3f2b8a4e",
    routes=(Route("POST", "/undo"),),
)
async def undo_source(ctx: OperationContext, params: UndoInput) -> UndoReport:
    """Undo what came through a token, in a session, from an episode or since a time.

    Shows what it would do; with apply it does all of it or nothing. What was stored and everything
    drawn from it is forgotten. What it superseded is current again. Its confirmations, marks,
    links and entity changes are undone. Copies that surely say the same go too; copies_possible
    lists what may say the same, which stays unless you name it with also. Only a person may do
    this.
    Returns how many of each, and the first memories.
    """
    if params.apply:
        must_decide(ctx.lineage, "undo a source")
    also = [await ctx.must_find(memory_id) for memory_id in params.also or ()]
    named = (params.token, params.session, params.episode, params.since)
    source = UndoSource(*named, also=tuple(also))
    do = undoing.undo_source if params.apply else undoing.preview_undo
    return await do(ctx.memory, source, ctx.lineage)
