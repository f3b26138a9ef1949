"""Episode retention: remove expired and surplus episodes, and keep unread ones from expiring.

Removed episodes lie in the bin and can be restored until the bin is emptied. Work is done in
bounded batches, one transaction each; an episode that a consolidation holds on lease waits for
the next cleanup. Unread episodes are kept within the limits of the settings; beyond them the
oldest expire. Dead letters are kept however many there are: a person has to decide.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from butlers.db.postgres import Row, Transaction
from butlers.errors import InvalidInput
from butlers.memory import limits
from butlers.memory.handle import Memory
from butlers.memory.model import EventType, Lineage, RemovalReason
from butlers.memory.settings import EpisodesConfig
from butlers.memory.store import events, links, retention
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
    """Bin one tenant's expired episodes, then the oldest consolidated ones beyond the limit.

    Records `episode_expired` or `episode_evicted` for each.
    """
    kept = memory.settings.episodes.max_entries if max_entries is None else max_entries
    if kept < 0:
        raise InvalidInput(f"max_entries: found {kept}; valid is 0 or more")
    now = memory.now()
    expired = partial(retention.claim_expired, limit=BATCH, now=now)
    surplus = partial(retention.claim_surplus, kept=kept, limit=BATCH, now=now)
    expired_deleted = await _remove_all(memory, expired, RemovalReason.EXPIRED, lineage, now)
    capacity_deleted = await _remove_all(memory, surplus, RemovalReason.EVICTED, lineage, now)
    async with memory.transaction(lineage) as tx:
        remaining = await retention.count_remaining(tx)
    return CleanupReport(expired_deleted, capacity_deleted, remaining)


async def _remove_all(
    memory: Memory, claim: _Claim, reason: RemovalReason, lineage: Lineage, now: datetime
) -> int:
    """Remove batch after batch until none is left; return how many episodes."""
    removed = 0
    while True:
        async with memory.transaction(lineage) as tx:
            # Two cleanups at once must not both remove the same.
            await lock_names(tx, "cleanup", "episodes")
            claimed = [row["id"] for row in await claim(tx)]
            if not claimed:
                return removed
            await links.keep_sources(tx, ids=claimed, now=now)
            await retention.put_in_bin(tx, ids=claimed, reason=reason, now=now)
            gone = await retention.delete_episodes(tx, ids=claimed)
            payloads = {row["id"]: _removed(row) for row in gone}
            told = Transition(_TOLD[reason], payloads)
            removed += await events.append(tx, memory.new_id, told, lineage, now)


async def empty_bin(memory: Memory, lineage: Lineage) -> int:
    """Delete what has been in the bin for its time, in batches; return how many episodes.

    Records `episode_deleted` for each.
    """
    now, gone = memory.now(), 0
    until = now - timedelta(days=memory.settings.retention.bin_days)
    while True:
        async with memory.transaction(lineage) as tx:
            await lock_names(tx, "cleanup", "episodes")
            emptied = await retention.empty_bin(tx, until=until, limit=BATCH)
            if not emptied:
                return gone
            payloads = {row["id"]: _deleted(row) for row in emptied}
            told = Transition(EventType.EPISODE_DELETED, payloads)
            gone += await events.append(tx, memory.new_id, told, lineage, now)


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


KEEP_BATCH = 1_000
_AHEAD = timedelta(days=2)
"""How long before its expiry an unread episode is extended: two runs of a daily job."""

_WARNED_FROM = 0.8
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Unread:
    """How many episodes are unread, how many of them wait to be read, and since when."""

    episodes: int
    bytes: int
    waiting: int
    oldest_at: datetime | None


async def count_unread(memory: Memory, lineage: Lineage) -> Unread:
    """Count the unread episodes; dead letters are unread but do not wait."""
    async with memory.transaction(lineage) as tx:
        return Unread(**await retention.count_unread(tx))


async def keep_unread(memory: Memory, lineage: Lineage, *, at_once: bool = False) -> int:
    """Extend the expiry of one tenant's unread episodes that soon expire; return how many.

    `at_once` extends one batch only, for callers that somebody waits for. Records `episode_kept`.
    """
    if not memory.settings.episodes.keep_unread:
        return 0
    now, kept = memory.now(), 0
    ttl = timedelta(days=memory.settings.episodes.default_ttl_days)
    until = now + min(_AHEAD, ttl)
    span = {"until": until, "furthest": until + ttl}
    async with memory.transaction(lineage) as tx:
        if not await retention.is_due(tx, **span):
            return 0
        bound = await _bound(tx)
    while moved := await _keep_some(memory, {**span, **bound, "ttl": ttl}, lineage, now):
        kept += moved
        if at_once:
            break
    return kept


async def _keep_some(memory: Memory, which: dict[str, Any], lineage: Lineage, now: datetime) -> int:
    async with memory.transaction(lineage) as tx:
        moved = await retention.keep_unread(tx, **which, limit=KEEP_BATCH, now=now)
        told = {row["id"]: _payload(row) for row in moved}
        kept = Transition(EventType.EPISODE_KEPT, told)
        return await events.append(tx, memory.new_id, kept, lineage, now)


async def _bound(tx: Transaction) -> dict[str, Any]:
    """Find the newest episode beyond the limits, if there is one."""
    found = await retention.get_newest_beyond(
        tx,
        max_unread=limits.MAX_UNREAD_EPISODES,
        max_bytes=limits.MAX_UNREAD_MB * _MEGABYTE,
    )
    at, id = (found["created_at"], found["id"]) if found else (None, None)
    return {"beyond_at": at, "beyond_id": id}


def _payload(row: Row) -> dict[str, Any]:
    return {"expires_at": {"from": row["was"].isoformat(), "to": row["expires_at"].isoformat()}}


def crowded(found: Unread, settings: EpisodesConfig) -> str | None:
    """Describe unread episodes that near or exceed the limits; None while there are few."""
    most, most_mb = limits.MAX_UNREAD_EPISODES, limits.MAX_UNREAD_MB
    share = max(found.episodes / most, found.bytes / (most_mb * _MEGABYTE))
    if not settings.keep_unread or share < _WARNED_FROM:
        return None
    told = (
        f"{found.episodes:,} of {most:,} unread episodes, "
        f"{found.bytes / _MEGABYTE:,.0f} of {most_mb:,} MB"
    )
    if share <= 1:
        return f"{told}: beyond that the oldest expire unread"
    return f"{told}: the oldest beyond that expire unread, and lie in the bin from then on"


def backlog(counted: Collection[Unread], now: datetime) -> str:
    """Describe how many episodes wait to be read, and how long the oldest has waited."""
    waiting = sum(one.waiting for one in counted)
    oldest = min((one.oldest_at for one in counted if one.oldest_at), default=None)
    if not waiting or oldest is None:
        return "nothing waits"
    wait = "1 waits" if waiting == 1 else f"{waiting:,} wait"
    return f"{wait}; oldest {_age(oldest, now)}"


def _age(since: datetime, now: datetime) -> str:
    span = max(now - since, timedelta(0))
    number, unit = (span.days, "day") if span.days else (span.seconds // 3600, "hour")
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
