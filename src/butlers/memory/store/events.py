"""The audit stream: appended to, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstValue, OnlyValue, Rows
from butlers.ids import NewId
from butlers.kernel.text import clean
from butlers.memory.model import Event, EventSubject, EventType, Lineage

_SQL = load(__file__)

exists = FirstValue[bool](_SQL["exists"])
find_history = Rows(_SQL["find_history"])
find_before = Rows(_SQL["find_before"])
find_after = Rows(_SQL["find_after"])
find_stored_by = Rows(_SQL["find_stored_by"])
find_moves = Rows(_SQL["find_moves"])

_append = OnlyValue[int](_SQL["append"])


@dataclass(frozen=True, slots=True)
class Transition:
    """What happened to some memories: one event for each, with its own payload."""

    type: EventType
    subject: EventSubject
    payloads: Mapping[UUID, dict[str, Any]]


async def append(
    tx: Transaction, event_id: UUID, event: Event, lineage: Lineage, now: datetime
) -> None:
    """Record an event in the transaction that made it happen."""
    told = Transition(event.type, event.subject, {event.subject_id: event.payload})
    await append_all(tx, lambda: event_id, told, lineage, now)


async def append_all(
    tx: Transaction, new_id: NewId, transition: Transition, lineage: Lineage, now: datetime
) -> int:
    """Record the same of many memories, in id order; how many.

    Who did it is who the transaction acts for: nobody else's name can stand there.
    """
    if clean(lineage.actor) != tx.actor:
        raise TypeError(f"{transition.type}: the transaction says on whose behalf it is")
    memory_ids = sorted(transition.payloads)
    if not memory_ids:
        return 0
    return await _append(
        tx,
        ids=[new_id() for _ in memory_ids],
        event_type=transition.type,
        request_id=lineage.request_id and clean(lineage.request_id),
        memory_type=transition.subject,
        memory_ids=memory_ids,
        payloads=[transition.payloads[memory_id] for memory_id in memory_ids],
        now=now,
    )
