"""The same thing happening to many memories at once, told in the audit stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.db.queries import load
from butlers.ids import NewId
from butlers.kernel.text import clean
from butlers.memory.model import EventSubject, EventType, Lineage

_SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Transition:
    """What happened to some memories: one event for each, with its own payload."""

    type: EventType
    subject: EventSubject
    payloads: Mapping[UUID, dict[str, Any]]


async def append(
    tx: Transaction, new_id: NewId, transition: Transition, lineage: Lineage, now: datetime
) -> int:
    """Record one event for each memory, in id order; how many."""
    memory_ids = sorted(transition.payloads)
    if not memory_ids:
        return 0
    return await tx.execute(
        _SQL["append"],
        ids=[new_id() for _ in memory_ids],
        event_type=transition.type,
        actor=clean(lineage.actor),
        request_id=lineage.request_id and clean(lineage.request_id),
        memory_type=transition.subject,
        memory_ids=memory_ids,
        payloads=[transition.payloads[memory_id] for memory_id in memory_ids],
        now=now,
    )
