"""Writing the audit stream from a flow."""

from datetime import datetime

from butlers.db.postgres import Transaction
from butlers.memory.handle import Memory
from butlers.memory.model import Event, Lineage
from butlers.memory.store import events


async def record(
    memory: Memory, tx: Transaction, event: Event, lineage: Lineage, now: datetime
) -> None:
    """Append an event to the audit stream, in the transaction that made it happen."""
    await events.append(tx, memory.new_id(), event, lineage, now)
