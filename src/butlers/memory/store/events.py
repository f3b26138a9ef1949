"""The audit stream: appended to, never changed."""

from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.kernel.text import clean
from butlers.memory.model import Event, Lineage

_SQL = load(__file__)


async def append(
    tx: Transaction, event_id: UUID, event: Event, lineage: Lineage, now: datetime
) -> None:
    """Record an event in the transaction that made it happen."""
    await tx.execute(
        _SQL["append"],
        id=event_id,
        event_type=event.type,
        actor=clean(lineage.actor),
        request_id=lineage.request_id and clean(lineage.request_id),
        memory_type=event.subject,
        memory_id=event.subject_id,
        payload=event.payload,
        now=now,
    )


async def find_history(tx: Transaction, memory_id: UUID) -> list[Row]:
    """Everything that happened to one memory, links to it included, in order."""
    return await tx.fetch(_SQL["history"], memory_id=memory_id)


async def find_recent(tx: Transaction, limit: int) -> list[Row]:
    """The newest events of the tenant."""
    return await tx.fetch(_SQL["recent"], limit=limit)
