"""Episode retention: remove expired and surplus episodes, and keep unread ones from expiring.

Removed episodes lie in the bin and can be restored until the bin is emptied. Work is done in
bounded batches, one transaction each; an episode that a consolidation holds on lease waits for
the next cleanup. Unread episodes are kept within fixed limits; beyond them the oldest expire.
Dead letters are kept however many there are: a person has to decide.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from butlers.db.postgres import Row, Transaction
from butlers.errors import InvalidInput
from butlers.memory import limits
from butlers.memory.flows.feedback import moved_time
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import EventType, Lineage, RemovalReason
from butlers.memory.policy.confidence import LOW_TRUST_DAYS
from butlers.memory.settings import EpisodesConfig
from butlers.memory.store import links, retention
from butlers.memory.store.events import Transition

BATCH = 500
"""Episodes per transaction; the memories drawn from each are touched with it."""
KEEP_BATCH = 1_000

_AHEAD = timedelta(days=2)
"""How long before its expiry an unread episode is extended: two runs of a daily job."""
_WARNED_FROM = 0.8
_MEGABYTE = 1_000_000

_Claim = Callable[[Transaction], Awaitable[list[Row]]]
_Step = Callable[[UnitOfWork], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What a cleanup removed, and what is left."""

    expired_deleted: int
    capacity_deleted: int
    remaining: int


@dataclass(frozen=True, slots=True)
class Unread:
    """How many episodes are unread, how many of them wait to be read, and since when."""

    episodes: int
    bytes: int
    waiting: int
    oldest_at: datetime | None


async def run_episode_cleanup(
    memory: Memory, lineage: Lineage, max_entries: int | None = None
) -> CleanupReport:
    """Bin one tenant's expired episodes, then the oldest consolidated ones beyond the limit.

    Records `episode_expired` or `episode_evicted` for each.
    """
    most = memory.settings.episodes.max_entries if max_entries is None else max_entries
    if most < 0:
        raise InvalidInput(f"max_entries: found {most}; valid is 0 or more")
    now = memory.now()
    expired = partial(retention.claim_expired, limit=BATCH, now=now)
    surplus = partial(retention.claim_surplus, kept=most, limit=BATCH, now=now)
    gone = await _repeat(memory, lineage, partial(_bin, expired, RemovalReason.EXPIRED, now))
    evicted = await _repeat(memory, lineage, partial(_bin, surplus, RemovalReason.EVICTED, now))
    async with memory.transaction(lineage) as tx:
        return CleanupReport(gone, evicted, await retention.count_remaining(tx))


async def _repeat(memory: Memory, lineage: Lineage, step: _Step) -> int:
    """Run a step, each time in a transaction, until it does nothing; return the sum.

    Two cleanups at once must not remove the same, so that each transaction takes a lock.
    """
    done = 0
    while True:
        async with memory.begin(lineage) as work:
            await work.tx.lock_names("cleanup", "episodes")
            count = await step(work)
        if not count:
            return done
        done += count


async def _bin(claim: _Claim, reason: RemovalReason, now: datetime, work: UnitOfWork) -> int:
    """Move one batch of claimed episodes to the bin; return how many."""
    ids = [row["id"] for row in await claim(work.tx)]
    if not ids:
        return 0
    await links.keep_sources(work.tx, ids=ids, now=now)
    await retention.put_in_bin(work.tx, ids=ids, reason=reason, now=now)
    rows = await retention.delete_episodes(work.tx, ids=ids)
    payloads = {row["id"]: _removed(row) for row in rows}
    return await work.record(Transition(EventType(f"episode_{reason}"), payloads), now)


async def empty_bin(memory: Memory, lineage: Lineage) -> int:
    """Delete what has been in the bin for its time, in batches; return how many episodes.

    Records `episode_deleted` for each.
    """
    now = memory.now()
    until = now - timedelta(days=memory.settings.retention.bin_days)

    async def step(work: UnitOfWork) -> int:
        rows = await retention.empty_bin(work.tx, until=until, limit=BATCH)
        binned = {row["id"]: (row["binned_at"].isoformat(), row["reason"]) for row in rows}
        payloads = {id: {"binned_at": at, "reason": why} for id, (at, why) in binned.items()}
        return await work.record(Transition(EventType.EPISODE_DELETED, payloads), now)

    return await _repeat(memory, lineage, step)


def _removed(row: Row) -> dict[str, Any]:
    expires_at: datetime | None = row["expires_at"]
    return {
        "from": row["consolidation_status"],
        "to": "removed",
        "butler": row["butler"],
        "created_at": row["created_at"].isoformat(),
        "expires_at": expires_at.isoformat() if expires_at else None,
        **({"piece": row["piece"]} if row["piece"] else {}),
    }


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
        low_since = now + ttl - timedelta(days=LOW_TRUST_DAYS)
        which = {**span, **await _newest_beyond(tx), "ttl": ttl, "low_since": low_since}
    while moved := await _keep_batch(memory, which, lineage, now):
        kept += moved
        if at_once:
            break
    return kept


async def _keep_batch(
    memory: Memory, which: dict[str, Any], lineage: Lineage, now: datetime
) -> int:
    async with memory.begin(lineage) as work:
        rows = await retention.keep_unread(work.tx, **which, limit=KEEP_BATCH, now=now)
        moved = {row["id"]: moved_time(row["was"], row["expires_at"]) for row in rows}
        payloads = {id: {"expires_at": times} for id, times in moved.items()}
        return await work.record(Transition(EventType.EPISODE_KEPT, payloads), now)


async def _newest_beyond(tx: Transaction) -> dict[str, Any]:
    """Find the newest episode beyond the limits, if there is one."""
    most, most_bytes = limits.MAX_UNREAD_EPISODES, limits.MAX_UNREAD_MB * _MEGABYTE
    row = await retention.get_newest_beyond(tx, max_unread=most, max_bytes=most_bytes)
    return {"beyond_at": row and row["created_at"], "beyond_id": row and row["id"]}


def crowded(unread: Unread, settings: EpisodesConfig) -> str | None:
    """Describe unread episodes that near or exceed the limits; None while there are few."""
    most, most_mb = limits.MAX_UNREAD_EPISODES, limits.MAX_UNREAD_MB
    share = max(unread.episodes / most, unread.bytes / (most_mb * _MEGABYTE))
    if not settings.keep_unread or share < _WARNED_FROM:
        return None
    counts = (
        f"{unread.episodes:,} of {most:,} unread episodes, "
        f"{unread.bytes / _MEGABYTE:,.0f} of {most_mb:,} MB"
    )
    if share <= 1:
        return f"{counts}: beyond that the oldest expire unread"
    return f"{counts}: the oldest beyond that expire unread, and lie in the bin from then on"


def backlog(counted: Collection[Unread], now: datetime) -> str:
    """Describe how many episodes wait to be read, and how long the oldest has waited."""
    waiting = sum(unread.waiting for unread in counted)
    oldest = min((unread.oldest_at for unread in counted if unread.oldest_at), default=None)
    if not waiting or oldest is None:
        return "nothing waits"
    wait = "1 waits" if waiting == 1 else f"{waiting:,} wait"
    return f"{wait}; oldest {_age(oldest, now)}"


def _age(since: datetime, now: datetime) -> str:
    span = max(now - since, timedelta(0))
    number, unit = (span.days, "day") if span.days else (span.seconds // 3600, "hour")
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
