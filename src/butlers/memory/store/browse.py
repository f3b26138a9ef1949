"""Listings: memories, entities and events by filter, a page at a time."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import Query, load

_SQL = load(__file__)

EXCERPT = 2_000
"""The most characters of a memory that a listing shows; `content_length` says how many it has."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a listing is wanted: how many rows, after which row, created when."""

    limit: int
    now: datetime
    place_at: datetime | None = None
    place_id: UUID | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


async def find_facts(tx: Transaction, where: Mapping[str, Any], window: Window) -> list[Row]:
    """Facts, newest first."""
    return await _find(tx, _SQL["facts"], where, window)


async def find_rules(tx: Transaction, where: Mapping[str, Any], window: Window) -> list[Row]:
    """Rules, newest first."""
    return await _find(tx, _SQL["rules"], where, window)


async def find_episodes(tx: Transaction, where: Mapping[str, Any], window: Window) -> list[Row]:
    """Episodes, newest first."""
    return await _find(tx, _SQL["episodes"], where, window)


async def find_entities(tx: Transaction, where: Mapping[str, Any], window: Window) -> list[Row]:
    """Entities, living or merged away, newest first."""
    return await _find(tx, _SQL["entities"], where, window)


async def find_events_before(tx: Transaction, event_id: UUID | None, limit: int) -> list[Row]:
    """The newest events, or those before one of the tenant's own, newest first."""
    return await tx.fetch(_SQL["events_before"], place_id=event_id, limit=limit)


async def find_events_after(tx: Transaction, event_id: UUID, limit: int) -> list[Row]:
    """What happened after one of the tenant's own events, in the order it happened."""
    return await tx.fetch(_SQL["events_after"], place_id=event_id, limit=limit)


async def has_event(tx: Transaction, event_id: UUID) -> bool:
    """Whether the tenant has this event."""
    return bool(await tx.fetch_value(_SQL["event_exists"], id=event_id))


async def _find(
    tx: Transaction, query: Query, where: Mapping[str, Any], window: Window
) -> list[Row]:
    values = {"excerpt": EXCERPT, **asdict(window), **where}
    return await tx.fetch(query, **{name: values[name] for name in query.parameters})
