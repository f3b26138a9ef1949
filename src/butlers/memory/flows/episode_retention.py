"""Keeping what nobody has read: its expiry is moved on before it passes.

Where no consolidation reads an episode it would expire unread. Within the bound of the settings
it does not, and stays as findable as it was; beyond the bound the oldest expire, by way of the bin,
and every cleanup says so. Dead letters are kept however many there are: somebody has to decide.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from butlers.db.postgres import Row, Transaction
from butlers.memory.handle import Memory
from butlers.memory.model import EventSubject, EventType, Lineage
from butlers.memory.settings import EpisodesConfig
from butlers.memory.store import episode_retention, events
from butlers.memory.store.events import Transition

BATCH = 1_000
_AHEAD = timedelta(days=2)
"""How long before its expiry an episode is moved on: twice as long as daily jobs take to return."""

_WARNED_FROM = 0.8
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Unread:
    """How much nobody has read, how much of it waits to be, and since when."""

    episodes: int
    bytes: int
    waiting: int
    oldest_at: datetime | None


async def count_unread(memory: Memory, lineage: Lineage) -> Unread:
    """What nobody has read so far; dead letters do not wait any more."""
    async with memory.transaction(lineage) as tx:
        return Unread(**await episode_retention.count(tx))


async def keep_unread(memory: Memory, lineage: Lineage, *, at_once: bool = False) -> int:
    """Move on the expiry of one tenant's unread episodes that soon expire; how many.

    Whoever is waited for does it `at_once`: as many as take a moment, the rest another time.
    """
    if not memory.settings.episodes.keep_unread:
        return 0
    now, kept = memory.now(), 0
    ttl = timedelta(days=memory.settings.episodes.default_ttl_days)
    until = now + min(_AHEAD, ttl)
    span = {"until": until, "furthest": until + ttl}
    async with memory.transaction(lineage) as tx:
        if not await episode_retention.is_due(tx, **span):
            return 0
        bound = await _bound(tx, memory.settings.episodes)
    while moved := await _keep_some(memory, {**span, **bound, "ttl": ttl}, lineage, now):
        kept += moved
        if at_once:
            break
    return kept


async def _keep_some(memory: Memory, which: dict[str, Any], lineage: Lineage, now: datetime) -> int:
    async with memory.transaction(lineage) as tx:
        moved = await episode_retention.keep(tx, **which, limit=BATCH, now=now)
        told = {row["id"]: _payload(row) for row in moved}
        kept = Transition(EventType.EPISODE_KEPT, EventSubject.EPISODE, told)
        return await events.append_all(tx, memory.new_id, kept, lineage, now)


async def _bound(tx: Transaction, settings: EpisodesConfig) -> dict[str, Any]:
    """The newest episode that is too much to be kept, if there is one."""
    most = settings.max_unread_mb * _MEGABYTE
    found = await episode_retention.newest_beyond(
        tx, max_unread=settings.max_unread, max_bytes=most
    )
    at, id = (found["created_at"], found["id"]) if found else (None, None)
    return {"beyond_at": at, "beyond_id": id}


def _payload(row: Row) -> dict[str, Any]:
    return {"expires_at": {"from": row["was"].isoformat(), "to": row["expires_at"].isoformat()}}


def crowded(found: Unread, settings: EpisodesConfig) -> str | None:
    """What to say of unread episodes that near or exceed what is kept; None while all is well."""
    most = settings.max_unread_mb * _MEGABYTE
    share = max(found.episodes / settings.max_unread, found.bytes / most)
    if not settings.keep_unread or share < _WARNED_FROM:
        return None
    told = (
        f"{found.episodes:,} of {settings.max_unread:,} unread episodes, "
        f"{found.bytes / _MEGABYTE:,.0f} of {settings.max_unread_mb:,} MB"
    )
    if share <= 1:
        return f"{told}: beyond that the oldest expire unread"
    return f"{told}: the oldest beyond that expire unread, and lie in the bin from then on"


def backlog(counted: Collection[Unread], now: datetime) -> str:
    """How many episodes wait to be read in all, and how long the oldest has."""
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
