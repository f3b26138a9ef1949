"""Episode cleanup: what expired goes, then the oldest consolidated beyond what may be kept.

What goes lies in the bin, from which it can be restored until the bin is emptied. Bounded batches,
one transaction each, so that a crash loses no more than the batch under way. An episode that a
consolidation holds on lease is left to the next cleanup.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from butlers.db.postgres import Row, Transaction
from butlers.errors import InvalidInput
from butlers.memory.handle import Memory
from butlers.memory.model import EventSubject, EventType, Lineage, RemovalReason
from butlers.memory.store import bin, cleanup, events, links
from butlers.memory.store.events import Transition
from butlers.memory.store.locks import lock_names

BATCH = 500
"""Episodes per transaction; the memories drawn from each are touched with it."""

_Claim = Callable[[Transaction], Awaitable[list[Row]]]
_TOLD = {
    RemovalReason.EXPIRED: EventType.EPISODE_EXPIRED,
    RemovalReason.EVICTED: EventType.EPISODE_EVICTED,
}


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
    expired = partial(cleanup.claim_expired, limit=BATCH, now=now)
    surplus = partial(cleanup.claim_surplus, kept=kept, limit=BATCH, now=now)
    expired_deleted = await _remove_all(memory, expired, RemovalReason.EXPIRED, lineage, now)
    capacity_deleted = await _remove_all(memory, surplus, RemovalReason.EVICTED, lineage, now)
    async with memory.transaction(lineage) as tx:
        remaining = await cleanup.remaining(tx)
    return CleanupReport(expired_deleted, capacity_deleted, remaining)


async def _remove_all(
    memory: Memory, claim: _Claim, reason: RemovalReason, lineage: Lineage, now: datetime
) -> int:
    """Remove batch after batch until there is nothing left to claim; how many episodes."""
    removed = 0
    while True:
        async with memory.transaction(lineage) as tx:
            # Two cleanups at once must not both remove the same.
            await lock_names(tx, "cleanup", "episodes")
            claimed = [row["id"] for row in await claim(tx)]
            if not claimed:
                return removed
            await links.keep_sources(tx, ids=claimed, now=now)
            await bin.put(tx, ids=claimed, reason=reason, now=now)
            gone = await bin.remove(tx, ids=claimed)
            payloads = {row["id"]: _removed(row) for row in gone}
            told = Transition(_TOLD[reason], EventSubject.EPISODE, payloads)
            removed += await events.append_all(tx, memory.new_id, told, lineage, now)


async def empty_bin(memory: Memory, lineage: Lineage) -> int:
    """What has lain in the bin for its time is gone for good, in batches; how many episodes."""
    now, gone = memory.now(), 0
    until = now - timedelta(days=memory.settings.retention.bin_days)
    while True:
        async with memory.transaction(lineage) as tx:
            await lock_names(tx, "cleanup", "episodes")
            emptied = await bin.empty(tx, until=until, limit=BATCH)
            if not emptied:
                return gone
            payloads = {row["id"]: _deleted(row) for row in emptied}
            told = Transition(EventType.EPISODE_DELETED, EventSubject.EPISODE, payloads)
            gone += await events.append_all(tx, memory.new_id, told, lineage, now)


def _removed(row: Row) -> dict[str, Any]:
    expires_at: datetime | None = row["expires_at"]
    return {
        "from": row["consolidation_status"],
        "to": "removed",
        "butler": row["butler"],
        "created_at": row["created_at"].isoformat(),
        "expires_at": expires_at.isoformat() if expires_at else None,
    }


def _deleted(row: Row) -> dict[str, Any]:
    return {"binned_at": row["binned_at"].isoformat(), "reason": row["reason"]}
