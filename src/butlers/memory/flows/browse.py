"""List memories, entities and events page by page, and count them by kind, state and day."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import NamedQuery
from butlers.errors import InvalidInput
from butlers.kernel.json_values import as_json
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
from butlers.memory.policy import inputs, scopes
from butlers.memory.policy.inputs import RowPosition
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
    """Which facts; None leaves a filter out. Subject, predicate and tag match exactly, a scope
    each of those it names."""

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


@dataclass(frozen=True, slots=True)
class Page:
    """Items, and the cursor of the next page; None on the last."""

    items: list[dict[str, Any]]
    next_cursor: str | None


async def browse_facts(
    memory: Memory, where: FactFilter, wanted: PageRequest, lineage: Lineage, then: Then = NOW
) -> Page:
    """List facts, newest first, each with its state and its confidence now or then."""
    return await _browse(memory, browse.FACTS, _checked(where, FactState), wanted, lineage, then)


async def browse_rules(
    memory: Memory, where: RuleFilter, wanted: PageRequest, lineage: Lineage
) -> Page:
    """List rules, newest first, each with its state and its confidence now."""
    return await _browse(memory, browse.RULES, _checked(where, RuleUse), wanted, lineage)


async def browse_episodes(
    memory: Memory, where: EpisodeFilter, wanted: PageRequest, lineage: Lineage
) -> Page:
    """List episodes, newest first, each with its consolidation status."""
    return await _browse(memory, browse.EPISODES, _checked(where, EpisodeState), wanted, lineage)


async def browse_entities(
    memory: Memory, where: EntityFilter, wanted: PageRequest, lineage: Lineage
) -> Page:
    """List entities, newest first, merged ones included, each with its number of current facts."""
    return await _browse(memory, browse.ENTITIES, _checked(where, EntityState), wanted, lineage)


async def recent_activity(memory: Memory, limit: int, cursor: str | None, lineage: Lineage) -> Page:
    """List events, newest first; the cursor is the id of the oldest event seen."""
    inputs.checked_limit(limit, MAX_LIMIT)
    seen = None if cursor is None else inputs.checked_id("cursor", cursor)
    async with memory.transaction(lineage) as tx:
        before = seen and await _sequence(tx, "cursor", seen)
        rows = await events.find_before(tx, before=before, limit=limit + 1)
    more = len(rows) > limit
    items = [as_json(row) for row in rows[:limit]]
    return Page(items, items[-1]["id"] if more else None)


async def activity_after(
    memory: Memory, event_id: str | UUID, limit: int, lineage: Lineage
) -> Page:
    """List events after one, newest first; a cursor means that there are more."""
    inputs.checked_limit(limit, MAX_LIMIT)
    seen = inputs.checked_id("after", event_id)
    async with memory.transaction(lineage) as tx:
        after = await _sequence(tx, "after", seen)
        rows = await events.find_after(tx, after=after, limit=limit + 1)
    items = [as_json(row) for row in reversed(rows[:limit])]
    return Page(items, items[0]["id"] if len(rows) > limit else None)


async def _browse(
    memory: Memory,
    listing: NamedQuery,
    where: Mapping[str, Any],
    wanted: PageRequest,
    lineage: Lineage,
    then: Then = NOW,
) -> Page:
    limit = inputs.checked_limit(wanted.limit, MAX_LIMIT)
    place = inputs.decode(wanted.cursor)
    window = PageWindow(
        # One more than wanted tells whether there is a next page.
        limit + 1,
        then.at(memory.now()),
        place.created_at if place else None,
        place.id if place else None,
        _aware("created_after", wanted.created_after),
        _aware("created_before", wanted.created_before),
        then.as_of,
        then.known_at,
    )
    async with memory.transaction(lineage) as tx:
        rows = await browse.find(tx, listing, where, window)
    return page_of(rows, limit)


def page_of(rows: list[Row], limit: int) -> Page:
    """Make a page of rows, of which one more than the limit was read to know if there is more."""
    shown = rows[:limit]
    more = len(rows) > limit
    last = RowPosition(shown[-1]["created_at"], shown[-1]["id"]) if more else None
    return Page([as_json(row) for row in shown], inputs.encode(last) if last else None)


def _checked(
    where: FactFilter | RuleFilter | EpisodeFilter | EntityFilter, states: type[StrEnum]
) -> dict[str, Any]:
    """Check the fields of a filter: words, lines and ids."""
    return {
        name: value if value is None else _field(name, value, {**_WORDS, "state": states})
        for name, value in asdict(where).items()
    }


def _field(name: str, value: str | UUID, words: Mapping[str, type[StrEnum]]) -> str | UUID:
    if name in words:
        return inputs.checked_word(name, str(value), words[name])
    if name in _SCOPES:
        return scopes.checked(name, str(value))
    if name in _LINES:
        return inputs.checked_line(name, str(value), _LINES[name])
    return inputs.checked_id(name, value)


def _aware(field: str, value: datetime | None) -> datetime | None:
    if value is not None and value.tzinfo is None:
        raise InvalidInput(
            f"{field}: found {value.isoformat()}; valid is a time with its offset, such as "
            "2026-01-31T12:00:00Z"
        )
    return value


async def _sequence(tx: Transaction, field: str, event_id: UUID) -> int:
    """Load the place of an event in the audit log; refuse an unknown id."""
    found = await events.get_sequence(tx, id=event_id)
    if found is None:
        raise InvalidInput(f"{field}: found {event_id}; valid is the id of an event you were shown")
    return found


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
    return {kind: counted[kind] for kind in ("episodes", "facts", "rules")}


async def memory_overview(
    memory: Memory, shown: int, lineage: Lineage
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return all counts with the last consolidation, and the latest events, newest first."""
    inputs.checked_limit(shown, MAX_LIMIT)
    async with memory.transaction(lineage) as tx:
        newest = await events.find_before(tx, before=None, limit=max(shown, _COMPARED_EVENTS))
        # Counted after the events were read: the next call notices what happens in between.
        ids = tuple(event["id"] for event in newest[:_COMPARED_EVENTS])
        counted = await _counted(memory, tx, ids)
    return _overview(counted, memory.now()), [dict(event) for event in newest[:shown]]


async def _counted(memory: Memory, tx: Transaction, newest: tuple[UUID, ...]) -> Counted:
    """Return the cached counts, unless something happened since: every change has its event.

    Several events are compared, because one may be committed after a later one.
    """
    kept = memory.counts.get(tx.tenant_id)
    if kept is None or kept.events != newest:
        now = memory.now()
        kept = Counted(await browse.count_memories(tx, scope=None, now=now), now, newest)
        memory.counts.set(tx.tenant_id, kept)
    return kept


def _overview(counted: Counted, now: datetime) -> dict[str, Any]:
    overview = as_json(counted.row)
    age = overview["episodes"]["backlog_age_hours"]
    if age is not None:
        overview["episodes"]["backlog_age_hours"] = age + (now - counted.at) / timedelta(hours=1)
    return overview


MAX_DAYS = 366


async def memory_timeline(memory: Memory, days: int, lineage: Lineage) -> TimelineCounts:
    """Count facts and episodes for each of the last days, including today, in UTC."""
    inputs.checked_limit(days, MAX_DAYS)
    shown = days_until(memory.now().date(), days + 1)
    async with memory.transaction(lineage) as tx:
        moves = await events.find_moves(tx, first_day=shown[0], last_day=shown[-1])
    return timeline(shown, moves)
