"""Lease episodes to whoever reads them: claim, renew, give back; list and requeue dead letters."""

from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from butlers.db.lease import Renewal
from butlers.db.postgres import Row
from butlers.kernel.json_values import as_json
from butlers.kernel.text import one_line
from butlers.memory import limits
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import ConsolidationStatus, Event, EventType, Lineage
from butlers.memory.policy.consolidation import EpisodeToRead, Reach
from butlers.memory.policy.inputs import checked_id
from butlers.memory.store import consolidation, retention
from butlers.memory.store.consolidation import Lease
from butlers.memory.store.locks import lock_names

ABANDONED = "the run that held this episode ended without settling it"
TAKEN_OVER = "the episodes changed hands or expired meanwhile; the answer was discarded"

_MAX_REASON = 500
_POSTPONED = timedelta(hours=6)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Claimed:
    """Episodes of one butler leased to one run, and how many had been abandoned."""

    butler: str
    lease: Lease
    episodes: tuple[EpisodeToRead, ...]
    failed: int = 0
    dead_lettered: int = 0


@dataclass(frozen=True, slots=True)
class GivenBack:
    """How many episodes failed an attempt, and how many became dead letters."""

    failed: int
    dead_lettered: int


@dataclass(frozen=True, slots=True)
class Appetite:
    """The limits of a claim: its run, episodes, characters and seconds."""

    run_id: str
    episodes: int
    chars: int
    seconds: float


def appetite_of(memory: Memory, reach: Reach, most: int | None = None) -> Appetite:
    """Return the limits of a run's claim for a model of such a reach."""
    batch = limits.CONSOLIDATION_BATCH
    episodes = min(reach.episodes(batch), most or batch)
    return Appetite(str(memory.new_id()), episodes, reach.chars, limits.CONSOLIDATION_LEASE_SECONDS)


async def find_waiting(memory: Memory, lineage: Lineage) -> list[Row]:
    """Count the waiting episodes of each butler, the longest waiting first."""
    async with memory.transaction(lineage) as tx:
        return await consolidation.find_waiting(tx, now=memory.now())


async def claim(memory: Memory, butler: str, lineage: Lineage, appetite: Appetite) -> Claimed:
    """Lease the oldest due episodes of a butler to a run.

    A lease that ran out counts as a failed attempt, so that an episode that kills every run
    becomes a dead letter. Locks the butler's queue. Records `episode_consolidation_failed` or
    `episode_dead_lettered` for abandoned episodes.
    """
    now, attempts = memory.now(), limits.CONSOLIDATION_ATTEMPTS
    async with memory.begin(lineage) as work:
        await lock_names(work.tx, "consolidation", butler)
        lapsed = await consolidation.abandon(
            work.tx, butler=butler, max_attempts=attempts, reason=ABANDONED, now=now
        )
        left = await _record_failures(work, lapsed, now)
        rows = await consolidation.claim(
            work.tx,
            run_id=appetite.run_id,
            butler=butler,
            batch_size=appetite.episodes,
            max_chars=appetite.chars,
            until=now + timedelta(seconds=appetite.seconds),
            now=now,
        )
    episodes = tuple(EpisodeToRead(**row) for row in rows)
    lease = Lease(appetite.run_id, tuple(episode.id for episode in episodes))
    return Claimed(butler, lease, episodes, left.failed, left.dead_lettered)


async def while_held(
    memory: Memory, lease: Lease, lineage: Lineage, work: Coroutine[Any, Any, T]
) -> T:
    """Run work while renewing the lease; a lost lease ends it with a Conflict."""

    async def renew() -> bool:
        async with memory.transaction(lineage) as tx:
            until = _until(memory, memory.now())
            kept = await consolidation.renew(tx, until=until, **asdict(lease))
        return kept == len(lease.episode_ids)

    seconds = limits.CONSOLIDATION_LEASE_SECONDS
    return await Renewal("consolidation", seconds, renew, TAKEN_OVER).while_held(work)


async def release(memory: Memory, lease: Lease, lineage: Lineage) -> None:
    """Release the episodes as if they had never been claimed."""
    async with memory.transaction(lineage) as tx:
        await consolidation.release(tx, until=None, **asdict(lease))


async def postpone(memory: Memory, lease: Lease, lineage: Lineage) -> None:
    """Release an episode that took the model too long, to wait behind the others."""
    async with memory.transaction(lineage) as tx:
        await consolidation.release(tx, until=memory.now() + _POSTPONED, **asdict(lease))


async def give_back(memory: Memory, lease: Lease, reason: str, lineage: Lineage) -> GivenBack:
    """Count a failed attempt on what is still leased; the last one makes dead letters."""
    async with memory.begin(lineage) as work:
        return await give_back_in(work, lease, reason)


async def give_back_in(work: UnitOfWork, lease: Lease, reason: str) -> GivenBack:
    """Count a failed attempt in a transaction; the next attempt reads half as many at once."""
    most, now = limits.CONSOLIDATION_ATTEMPTS, work.now
    told, company = one_line(reason)[:_MAX_REASON], len(lease.episode_ids)
    failed = await consolidation.fail(
        work.tx, max_attempts=most, reason=told, company=company, now=now, **asdict(lease)
    )
    return await _record_failures(work, failed, now)


def _until(memory: Memory, now: datetime) -> datetime:
    return now + timedelta(seconds=limits.CONSOLIDATION_LEASE_SECONDS)


async def _record_failures(work: UnitOfWork, rows: Sequence[Row], now: datetime) -> GivenBack:
    for row in rows:
        await work.record(_failure(row), now)
    dead = sum(row["consolidation_status"] == ConsolidationStatus.DEAD_LETTER for row in rows)
    return GivenBack(len(rows) - dead, dead)


def _failure(row: Row) -> Event:
    retry_at: datetime | None = row["next_consolidation_retry_at"]
    payload = {
        "from": row["was"],
        "to": row["consolidation_status"],
        "attempts": row["consolidation_attempts"],
        "reason": row["last_consolidation_error"],
        "retry_at": retry_at.isoformat() if retry_at else None,
    }
    dead = row["consolidation_status"] == ConsolidationStatus.DEAD_LETTER
    kind = EventType.EPISODE_DEAD_LETTERED if dead else EventType.EPISODE_CONSOLIDATION_FAILED
    return Event(kind, row["id"], payload)


async def find_dead_letters(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """List the tenant's dead letters with their reasons, oldest first."""
    async with memory.transaction(lineage) as tx:
        return [as_json(row) for row in await consolidation.find_dead_letters(tx, limit=limit)]


async def find_binned(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """List the episodes in the bin, and until when they can be restored; the latest first."""
    days = timedelta(days=memory.settings.retention.bin_days)
    async with memory.transaction(lineage) as tx:
        rows = await retention.find_binned(tx, limit=limit)
    return [as_json({**row, "until": row["binned_at"] + days}) for row in rows]


async def requeue(
    memory: Memory, episode_ids: Sequence[str | UUID] | None, lineage: Lineage
) -> int:
    """Requeue these dead letters, or all for None; return how many.

    An episode that is no dead letter stays as it is. Records `episode_requeued` for each.
    """
    ids = None if episode_ids is None else [checked_id("episode_id", id) for id in episode_ids]
    now = memory.now()
    async with memory.begin(lineage) as work:
        requeued = await consolidation.requeue(work.tx, ids=ids)
        for row in requeued:
            payload = {
                "from": ConsolidationStatus.DEAD_LETTER,
                "to": ConsolidationStatus.PENDING,
                "reason": row["reason"],
                "attempts": row["attempts"],
            }
            event = Event(EventType.EPISODE_REQUEUED, row["id"], payload)
            await work.record(event, now)
    return len(requeued)
