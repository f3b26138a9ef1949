"""Operations on memories in doubt and on conflicting facts."""

import re
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BeforeValidator, Field

from butlers.memory.flows import conflicts as settling
from butlers.memory.flows import doubts
from butlers.memory.flows.browse import DEFAULT_LIMIT, MAX_LIMIT, Page
from butlers.memory.model import Holds, Settlement
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


_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class ConflictingFact(Output):
    """A fact that another may exclude."""

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
    """Two facts that exclude each other, or say the same, and why it seems so."""

    id: UUID
    kind: Literal["conflict", "same"]
    why: str
    score: float
    newer: ConflictingFact
    older: ConflictingFact
    created_at: Instant


class Conflicts(Output):
    """A page of conflicts."""

    items: list[OpenConflict]
    next_cursor: str | None


class Settled(Output):
    """What was said of two facts."""

    settled: str
    newer_id: UUID
    older_id: UUID


class PredicateTold(Output):
    """How many values a predicate has at a time."""

    predicate: str
    holds: Literal["one", "many"]


class KnownPredicate(PredicateTold):
    """What is known of a predicate, whether somebody told it or settling showed it, and when."""

    told: bool
    told_by: str
    created_at: Instant


class AskedConflicts(Input):
    """Which page."""

    limit: Annotated[int, *fields.within(1, MAX_LIMIT)] = DEFAULT_LIMIT
    """How many at most."""
    cursor: Annotated[str, Field(max_length=200)] | None = None
    """The next_cursor of the page before."""


@OPERATIONS.add(
    output=Conflicts,
    command="conflicts",
    example="conflicts",
    routes=(Route("GET", "/conflicts"),),
)
async def list_conflicts(ctx: OperationContext, params: AskedConflicts) -> Page:
    """List facts that exclude each other or say the same, the latest found first.

    They are found when a fact is stored, and nothing is done about them until somebody settles it.
    Returns {items, next_cursor}: each with both facts and why.
    """
    return await settling.find_conflicts(ctx.memory, params.limit, params.cursor, ctx.lineage)


def _of_a_day(given: object) -> object:
    """A day means its beginning, in UTC."""
    is_day = isinstance(given, str) and _DAY.fullmatch(given.strip())
    return f"{given}T00:00:00Z" if is_day else given


class Settle(Input):
    """Which conflict, and what is so."""

    conflict_id: fields.Uuid
    """The conflict."""
    holds: Annotated[Settlement, *fields.word(Settlement)]
    """newer, older, both, since (the newer since a time, the older until then) or same."""
    since: Annotated[AwareDatetime, BeforeValidator(_of_a_day)] | None = None
    """Since when the newer one holds: a day, or a time with its offset; for since alone."""


@OPERATIONS.add(
    output=Settled,
    effect=OperationEffect.WRITES,
    command="settle",
    example="settle 3f2b8a4e-0000-4000-8000-000000000001 newer",
    routes=(Route("POST", "/conflicts/{conflict_id}/settle"),),
)
async def settle_conflict(ctx: OperationContext, params: Settle) -> dict[str, Any]:
    """Say which of two facts holds; the other gives way to it and stays readable.

    newer: it has taken the older one's place. older: the newer one never held. both: they do not
    exclude each other. since: each held in its time. same: the older one is confirmed, and the
    newer one gives way to it. Returns {settled, newer_id, older_id}.
    """
    since, given = params.since, params.conflict_id
    return await settling.settle(ctx.memory, given, params.holds, ctx.lineage, since)


class TellPredicate(Input):
    """Which predicate, and what it holds."""

    predicate: fields.Predicate
    """The predicate, e.g. city."""
    holds: Annotated[Holds, *fields.word(Holds)]
    """one (a city) or many (likes)."""


@OPERATIONS.add(
    output=PredicateTold,
    effect=OperationEffect.WRITES,
    is_maintenance=True,
    command="predicate",
    example="predicate mascot one",
    routes=(Route("POST", "/predicates"),),
)
async def tell_predicate(ctx: OperationContext, params: TellPredicate) -> dict[str, Any]:
    """Say whether a predicate has one value at a time or many; it counts for what is stored next.

    Common ones are known, others are learned from what is settled. Returns {predicate, holds}.
    """
    return await settling.tell_predicate(ctx.memory, params.predicate, params.holds, ctx.lineage)


class AskedPredicates(Input):
    """Nothing."""


@OPERATIONS.add(
    output=list[KnownPredicate],
    command="predicates",
    example="predicates",
    routes=(Route("GET", "/predicates", wraps="predicates"),),
)
async def list_predicates(ctx: OperationContext, params: AskedPredicates) -> list[dict[str, Any]]:
    """List what was told of predicates, or learned from what was settled.

    Returns for each whether it has one value at a time or many, who said so, and when.
    """
    return await settling.find_predicates(ctx.memory, ctx.lineage)
