"""Episode cleanup: what expired goes, then the oldest consolidated beyond what may be kept.

Bounded batches, one transaction each, so that a crash loses no more than the batch under way.
An episode that was never consolidated lives until it expires, however many there are; one that a
consolidation holds on lease is left to the next cleanup.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import InvalidInput
from butlers.memory.flows.every_tenant import TenantReports, for_every_tenant
from butlers.memory.handle import Memory
from butlers.memory.model import EventSubject, EventType, Lineage
from butlers.memory.store import cleanup, transitions
from butlers.memory.store.transitions import Transition

BATCH = 500
"""Episodes per transaction; the memories drawn from each are touched with it."""

_Claim = Callable[[Transaction], Awaitable[list[UUID]]]


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What a cleanup removed, and what is left."""

    expired_deleted: int
    capacity_deleted: int
    remaining: int


async def run_episode_cleanup(
    memory: Memory, lineage: Lineage, max_entries: int | None = None
) -> CleanupReport:
    """Remove one tenant's expired episodes, then the oldest consolidated beyond the limit."""
    kept = memory.settings.episodes.max_entries if max_entries is None else max_entries
    if kept < 0:
        raise InvalidInput(f"max_entries: found {kept}; valid is 0 or more")
    now = memory.now()

    async def expired(tx: Transaction) -> list[UUID]:
        return await cleanup.claim_expired(tx, BATCH, now)

    async def surplus(tx: Transaction) -> list[UUID]:
        return await cleanup.claim_surplus(tx, kept, BATCH, now)

    expired_deleted = await _remove_all(memory, expired, EventType.EPISODE_EXPIRED, lineage, now)
    capacity_deleted = await _remove_all(memory, surplus, EventType.EPISODE_EVICTED, lineage, now)
    async with memory.transaction(lineage) as tx:
        remaining = await cleanup.count_remaining(tx)
    return CleanupReport(expired_deleted, capacity_deleted, remaining)


async def cleanup_all(memory: Memory, actor: str) -> TenantReports[CleanupReport]:
    """Clean up after every tenant; one that fails does not keep the others from it."""
    return await for_every_tenant(memory, actor, run_episode_cleanup)


async def _remove_all(
    memory: Memory, claim: _Claim, event: EventType, lineage: Lineage, now: datetime
) -> int:
    """Remove batch after batch until there is nothing left to claim; how many episodes."""
    removed = 0
    while True:
        async with memory.transaction(lineage) as tx:
            await cleanup.take_turn(tx)
            claimed = await claim(tx)
            if not claimed:
                return removed
            await cleanup.keep_sources(tx, claimed, now)
            gone = {row["id"]: _payload(row) for row in await cleanup.remove(tx, claimed)}
            told = Transition(event, EventSubject.EPISODE, gone)
            removed += await transitions.append(tx, memory.new_id, told, lineage, now)


def _payload(row: Row) -> dict[str, Any]:
    expires_at: datetime | None = row["expires_at"]
    return {
        "from": row["consolidation_status"],
        "to": "removed",
        "butler": row["butler"],
        "created_at": row["created_at"].isoformat(),
        "expires_at": expires_at.isoformat() if expires_at else None,
    }
