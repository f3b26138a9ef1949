"""Lease episodes to a run or agent: claim, renew, give back; list and requeue dead letters."""

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

ABANDONED = "the run that held this episode ended without settling it"
TAKEN_OVER = "the episodes changed hands or expired meanwhile; the answer was discarded"

_MAX_REASON = 500
_POSTPONED = timedelta(hours=6)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GivenBack:
    """How many episodes failed an attempt, and how many became dead letters."""

    failed: int
    dead_lettered: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """Episodes of one butler leased to one run, and those that an earlier run abandoned."""

    butler: str
    lease: Lease
    episodes: tuple[EpisodeToRead, ...]
    abandoned: GivenBack = GivenBack(0, 0)


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """The limits of a claim: its run, episodes, characters and seconds."""

    run_id: str
    episodes: int
    chars: int
    seconds: float


def claim_limits(memory: Memory, reach: Reach, most: int | None = None) -> ClaimLimits:
    """Return the limits of a run's claim for a model of such a reach."""
    batch, seconds = limits.CONSOLIDATION_BATCH, limits.CONSOLIDATION_LEASE_SECONDS
    episodes = min(reach.episodes(batch), most or batch)
    return ClaimLimits(str(memory.new_id()), episodes, reach.chars, seconds)


async def find_waiting(memory: Memory, lineage: Lineage) -> list[Row]:
    """Count the waiting episodes of each butler, the longest waiting first."""
    async with memory.transaction(lineage) as tx:
        return await consolidation.find_waiting(tx, now=memory.now())


async def claim(memory: Memory, butler: str, lineage: Lineage, most: ClaimLimits) -> Claimed:
    """Lease the oldest due episodes of a butler to a run.

    A lease that ran out counts as a failed attempt, so that an episode that kills every run
    becomes a dead letter. Locks the butler's queue. Records `episode_consolidation_failed` or
    `episode_dead_lettered` for abandoned episodes.
    """
    now, attempts = memory.now(), limits.CONSOLIDATION_ATTEMPTS
    async with memory.begin(lineage) as work:
        await work.tx.lock_names("consolidation", butler)
        lapsed = await consolidation.abandon(
            work.tx, butler=butler, max_attempts=attempts, reason=ABANDONED, now=now
        )
        abandoned = await _record_failures(work, lapsed, now)
        rows = await consolidation.claim(
            work.tx,
            run_id=most.run_id,
            butler=butler,
            batch_size=most.episodes,
            max_chars=most.chars,
            until=now + timedelta(seconds=most.seconds),
            now=now,
        )
    episodes = tuple(EpisodeToRead(**row) for row in rows)
    lease = Lease(most.run_id, tuple(episode.id for episode in episodes))
    return Claimed(butler, lease, episodes, abandoned)


async def while_held(
    memory: Memory, lease: Lease, lineage: Lineage, work: Coroutine[Any, Any, T]
) -> T:
    """Run work while renewing the lease; a lost lease ends it with a Conflict."""

    seconds = limits.CONSOLIDATION_LEASE_SECONDS

    async def renew() -> bool:
        async with memory.transaction(lineage) as tx:
            until = memory.now() + timedelta(seconds=seconds)
            kept = await consolidation.renew(tx, until=until, **asdict(lease))
        return kept == len(lease.episode_ids)

    return await Renewal("consolidation", seconds, renew, TAKEN_OVER).while_held(work)


async def release(
    memory: Memory, lease: Lease, lineage: Lineage, *, behind_others: bool = False
) -> None:
    """Release the episodes as if they had never been claimed, or to wait behind the others."""
    until = memory.now() + _POSTPONED if behind_others else None
    async with memory.transaction(lineage) as tx:
        await consolidation.release(tx, until=until, **asdict(lease))


async def give_back_in(work: UnitOfWork, lease: Lease, reason: str) -> GivenBack:
    """Count a failed attempt on what is still leased; the last one makes dead letters.

    The next attempt reads half as many at once. Records `episode_consolidation_failed` or
    `episode_dead_lettered`.
    """
    now, company = work.now, len(lease.episode_ids)
    attempt = {"max_attempts": limits.CONSOLIDATION_ATTEMPTS, "company": company, "now": now}
    cause = one_line(reason)[:_MAX_REASON]
    rows = await consolidation.fail(work.tx, reason=cause, **attempt, **asdict(lease))
    return await _record_failures(work, rows, now)


async def _record_failures(work: UnitOfWork, rows: Sequence[Row], now: datetime) -> GivenBack:
    dead = 0
    for row in rows:
        kind = EventType.EPISODE_CONSOLIDATION_FAILED
        if row["consolidation_status"] == ConsolidationStatus.DEAD_LETTER:
            kind, dead = EventType.EPISODE_DEAD_LETTERED, dead + 1
        retry_at = row["next_consolidation_retry_at"]
        payload = {"from": row["was"], "to": row["consolidation_status"]}
        payload["attempts"] = row["consolidation_attempts"]
        payload["reason"] = row["last_consolidation_error"]
        payload["retry_at"] = retry_at and retry_at.isoformat()
        await work.record(Event(kind, row["id"], payload), now)
    return GivenBack(len(rows) - dead, dead)


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
    moved = {"from": ConsolidationStatus.DEAD_LETTER, "to": ConsolidationStatus.PENDING}
    async with memory.begin(lineage) as work:
        rows = await consolidation.requeue(work.tx, ids=ids)
        for row in rows:
            payload = {**moved, "reason": row["reason"], "attempts": row["attempts"]}
            await work.record(Event(EventType.EPISODE_REQUEUED, row["id"], payload))
    return len(rows)
