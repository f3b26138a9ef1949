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
    subject: EventSubject | None
    payloads: Mapping[Any, dict[str, Any]]
    """By the id of each; None for what concerns the whole memory."""


async def append(
    tx: Transaction, event_id: UUID, event: Event, lineage: Lineage, now: datetime
) -> None:
    """Record an event in the transaction that made it happen."""
    told = {"ids": [event_id], "memory_ids": [event.subject_id], "payloads": [event.payload]}
    await _tell(tx, event.type, event.subject, lineage, now=now, **told)


async def append_all(
    tx: Transaction, new_id: NewId, transition: Transition, lineage: Lineage, now: datetime
) -> int:
    """Record the same of many memories, in id order; how many."""
    memory_ids = sorted(transition.payloads)
    if not memory_ids:
        return 0
    payloads = [transition.payloads[memory_id] for memory_id in memory_ids]
    told = {"ids": [new_id() for _ in memory_ids], "memory_ids": memory_ids, "payloads": payloads}
    return await _tell(tx, transition.type, transition.subject, lineage, now=now, **told)


async def _tell(
    tx: Transaction,
    event_type: EventType,
    subject: EventSubject | None,
    lineage: Lineage,
    **told: object,
) -> int:
    """Who did it is on whose behalf the transaction acts: nobody else's name can stand there."""
    if clean(lineage.actor) != tx.actor:
        raise TypeError(f"{event_type}: the transaction says on whose behalf it is")
    request_id = lineage.request_id and clean(lineage.request_id)
    return await _append(
        tx, event_type=event_type, memory_type=subject, request_id=request_id, **told
    )
