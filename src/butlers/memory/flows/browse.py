"""List memories, entities and events page by page, and count them by kind, state and day."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import NamedQuery
from butlers.db.statements import Rows
from butlers.errors import InvalidInput
from butlers.kernel.json_values import as_json
from butlers.memory.flows.inbox import count_waiting_in
from butlers.memory.handle import Counted, Memory
from butlers.memory.model import (
    NOW,
    ConsolidationStatus,
    EntityType,
    Lineage,
    Maturity,
    Permanence,
    Then,
)
from butlers.memory.policy import cursors, inputs, scopes
from butlers.memory.policy.states import (
    EntityState,
    EpisodeState,
    FactState,
    RuleUse,
    TimelineCounts,
    days_until,
    timeline,
)
from butlers.memory.store import browse, events
from butlers.memory.store.browse import PageWindow

MAX_LIMIT = 100
DEFAULT_LIMIT = 20

_WORDS: dict[str, type[StrEnum]] = {
    "permanence": Permanence,
    "maturity": Maturity,
    "status": ConsolidationStatus,
    "entity_type": EntityType,
}
_LINES = {
    "subject": inputs.MAX_SUBJECT,
    "predicate": inputs.MAX_PREDICATE,
    "tag": inputs.MAX_TAG,
    "name": inputs.MAX_NAME,
}
_SCOPES = ("scope", "butler")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page of a listing, and of which time; `created_before` is exclusive."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class FactFilter:
    """Which facts; None leaves a filter out. Subject, predicate and tag match exactly."""

    state: str | None = None
    scope: str | None = None
    permanence: str | None = None
    subject: str | None = None
    predicate: str | None = None
    tag: str | None = None
    entity_id: str | UUID | None = None


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """Which rules; None leaves a filter out."""

    state: str | None = None
    scope: str | None = None
    maturity: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Which episodes; None leaves a filter out. `status` is that of consolidation."""

    state: str | None = None
    status: str | None = None
    butler: str | None = None
    session_id: str | UUID | None = None


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """Which entities; None leaves a filter out. `name` is found anywhere in name or alias."""

    state: str | None = None
    entity_type: str | None = None
    name: str | None = None


Filter = FactFilter | RuleFilter | EpisodeFilter | EntityFilter
_LISTINGS: dict[type[Filter], tuple[NamedQuery, type[StrEnum]]] = {
    FactFilter: (browse.FACTS, FactState),
    RuleFilter: (browse.RULES, RuleUse),
    EpisodeFilter: (browse.EPISODES, EpisodeState),
    EntityFilter: (browse.ENTITIES, EntityState),
}


@dataclass(frozen=True, slots=True)
class Page:
    """Items, and the cursor of the next page; None on the last."""

    items: list[dict[str, Any]]
    next_cursor: str | None


async def list_page(
    memory: Memory, where: Filter, wanted: PageRequest, lineage: Lineage, then: Then = NOW
) -> Page:
    """List the facts, rules, episodes or entities that pass a filter, newest first.

    Each has its state and its confidence now or then; an entity its number of current facts.
    Refuses unknown words, a limit above MAX_LIMIT, and times without an offset.
    """
    listing, states = _LISTINGS[type(where)]
    words, fields = {**_WORDS, "state": states}, asdict(where).items()
    values = {k: None if value is None else _checked(k, value, words) for k, value in fields}
    limit = inputs.checked_limit(wanted.limit, MAX_LIMIT)
    place = cursors.decode(wanted.cursor)
    window = PageWindow(
        limit + 1,
        then.as_of or then.known_at or memory.now(),
        place.created_at if place else None,
        place.id if place else None,
        _aware("created_after", wanted.created_after),
        _aware("created_before", wanted.created_before),
        then.as_of,
        then.known_at,
    )
    async with memory.transaction(lineage) as tx:
        return page_of(await browse.find(tx, listing, values, window), limit)


async def recent_activity(memory: Memory, limit: int, cursor: str | None, lineage: Lineage) -> Page:
    """List events, newest first; the cursor is the id of the oldest event seen."""
    return await _events(memory, events.find_before, limit, ("cursor", cursor), lineage)


async def activity_after(
    memory: Memory, event_id: str | UUID, limit: int, lineage: Lineage
) -> Page:
    """List events after one, newest first; a cursor means that there are more."""
    page = await _events(memory, events.find_after, limit, ("after", event_id), lineage)
    return Page(page.items[::-1], page.next_cursor)


async def _events(
    memory: Memory, find: Rows, limit: int, seen: tuple[str, str | UUID | None], lineage: Lineage
) -> Page:
    """List events from one that was seen on; the cursor is the last id if there are more."""
    inputs.checked_limit(limit, MAX_LIMIT)
    field, given = seen
    id = None if given is None else inputs.checked_id(field, given)
    async with memory.transaction(lineage) as tx:
        sequence = id and await events.get_sequence(tx, id=id)
        if id is not None and sequence is None:
            raise InvalidInput(f"{field}: found {id}; valid is the id of an event you were shown")
        rows = await find(tx, sequence=sequence, limit=limit + 1)
    items = [as_json(row) for row in rows[:limit]]
    return Page(items, items[-1]["id"] if len(rows) > limit else None)


def page_of(rows: list[Row], limit: int) -> Page:
    """Make a page of rows, of which one more than the limit was read to know if there is more."""
    shown = rows[:limit]
    more = len(rows) > limit
    last = cursors.RowPosition(shown[-1]["created_at"], shown[-1]["id"]) if more else None
    return Page([as_json(row) for row in shown], cursors.encode(last) if last else None)


def _checked(name: str, value: str | UUID, words: Mapping[str, type[StrEnum]]) -> str | UUID:
    """Check a field of a filter: a word, a scope, a line or an id."""
    if name in words:
        return inputs.checked_word(name, str(value), words[name])
    if name in _SCOPES:
        return scopes.checked(name, str(value))
    if name in _LINES:
        return inputs.checked_line(name, str(value), _LINES[name])
    return inputs.checked_id(name, value)


def _aware(field: str, value: datetime | None) -> datetime | None:
    if value is not None and value.tzinfo is None:
        valid = "a time with its offset, such as 2026-01-31T12:00:00Z"
        raise InvalidInput(f"{field}: found {value.isoformat()}; valid is {valid}")
    return value


_COMPARED_EVENTS = 15
"""How many of the newest events are compared to know whether anything happened."""


async def memory_stats(memory: Memory, scope: str | None, lineage: Lineage) -> dict[str, Any]:
    """Count memories by type and state; a scope counts its own facts and rules and global ones.

    `episodes.backlog_age_hours` is None when nothing waits. A forgotten rule counts as such alone.
    """
    if scope is not None:
        scope = scopes.checked("scope", scope)
    async with memory.transaction(lineage) as tx:
        counted = await browse.count_memories(tx, scope=scope, now=memory.now())
        waiting = await count_waiting_in(memory, tx)
    return {**{kind: counted[kind] for kind in ("episodes", "facts", "rules")}, "inbox": waiting}


async def memory_overview(
    memory: Memory, shown: int, lineage: Lineage
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return all counts with the last consolidation, and the latest events, newest first."""
    inputs.checked_limit(shown, MAX_LIMIT)
    async with memory.transaction(lineage) as tx:
        newest = await events.find_before(tx, sequence=None, limit=max(shown, _COMPARED_EVENTS))
        # Counted after the events were read: the next call notices what happens in between.
        compared = tuple(event["id"] for event in newest[:_COMPARED_EVENTS])
        counted = await _counted(memory, tx, compared)
    return _overview(counted, memory.now()), [dict(event) for event in newest[:shown]]


async def _counted(memory: Memory, tx: Transaction, newest: tuple[UUID, ...]) -> Counted:
    """Return the cached counts, unless something happened since: every change has its event.

    Several events are compared, because one may be committed after a later one.
    """
    counted = memory.counts.get(tx.tenant_id)
    if counted is None or counted.events != newest:
        now = memory.now()
        row = await browse.count_memories(tx, scope=None, now=now)
        waiting = await count_waiting_in(memory, tx)
        counted = Counted({**row, "inbox": waiting}, now, newest)
        memory.counts.set(tx.tenant_id, counted)
    return counted


def _overview(counted: Counted, now: datetime) -> dict[str, Any]:
    overview = as_json(counted.row)
    age = overview["episodes"]["backlog_age_hours"]
    if age is not None:
        overview["episodes"]["backlog_age_hours"] = age + (now - counted.at) / timedelta(hours=1)
    return overview


MAX_DAYS = 366


async def memory_timeline(memory: Memory, days: int, lineage: Lineage) -> TimelineCounts:
    """Count facts and episodes for each of the last days, including today, in UTC."""
    shown = days_until(memory.now().date(), inputs.checked_limit(days, MAX_DAYS) + 1)
    async with memory.transaction(lineage) as tx:
        moves = await events.find_moves(tx, first_day=shown[0], last_day=shown[-1])
    return timeline(shown, moves)
