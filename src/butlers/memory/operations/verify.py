"""Showing that the audit trail is what was told."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from butlers.memory.flows import verify as flow
from butlers.memory.operations.context import OperationContext
from butlers.memory.operations.results import Instant
from butlers.memory.operations.table import OPERATIONS
from butlers.operation import Input, Output, Route


class EventFault(Output):
    """Where the audit trail does not hold."""

    fault: Literal["changed", "missing", "gap", "added", "erased", "head"]
    """An event that is not what was told, or gone; places of the chain that are gone before this
    one; an event in no place of it; texts erased that no event tells of; a head that is not in it.
    """
    number: int | None
    """Which place of the chain."""
    event_id: UUID | None
    at: Instant | None


class EventsVerified(Output):
    """Whether the audit trail is what was told."""

    intact: bool
    events: int
    erased: int
    """How many had texts erased, which leaves the chain as it was."""
    faulty: int
    faults: list[EventFault]
    """The first of them."""
    head: str | None
    """The hash that stands for all of it; worth noting elsewhere."""
    since_head: int | None
    """How many events came after the head that was asked about."""


class VerifyEvents(Input):
    """Since when, if something was noted."""

    since_head: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """The head that was noted elsewhere: whether all that it stood for is still there."""


@OPERATIONS.add(
    output=EventsVerified,
    command="verify",
    example="verify",
    routes=(Route("GET", "/events/verify"),),
    left_out={"mcp": "whether the audit trail holds is asked by whoever answers for it"},
)
async def verify_events(ctx: OperationContext, params: VerifyEvents) -> dict[str, Any]:
    """Check that the events are what was told: none changed, missing or added since.

    What was cut off at the end together with its places in the chain shows only against a head that
    was noted elsewhere.
    Returns whether they are intact, how many there are, how many had texts erased, the head, and
    the first faults: what is wrong, at which place, with which event.
    """
    return await flow.verify_events(ctx.memory, ctx.lineage, params.since_head)
