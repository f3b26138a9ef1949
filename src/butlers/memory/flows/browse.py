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
    """Which page of a listing, and from which time; the later bound itself is not included."""

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
    """Some of what there is, and the cursor of the next page; None on the last."""

    items: list[dict[str, Any]]
    next_cursor: str | None


async def browse_facts(
    memory: Memory, where: FactFilter, wanted: PageRequest, lineage: Lineage, then: Then = NOW
) -> Page:
    """Facts, newest first; each with its state, and its confidence now or then."""
    return await _browse(memory, browse.FACTS, _checked(where, FactState), wanted, lineage, then)


async def browse_rules(
    memory: Memory, where: RuleFilter, wanted: PageRequest, lineage: Lineage
) -> Page:
    """Rules, newest first; each with its state and its confidence now."""
    return await _browse(memory, browse.RULES, _checked(where, RuleUse), wanted, lineage)


async def browse_episodes(
    memory: Memory, where: EpisodeFilter, wanted: PageRequest, lineage: Lineage
) -> Page:
    """Episodes, newest first; each with its state of consolidation."""
    return await _browse(memory, browse.EPISODES, _checked(where, EpisodeState), wanted, lineage)


async def browse_entities(
    memory: Memory, where: EntityFilter, wanted: PageRequest, lineage: Lineage
) -> Page:
    """Entities, newest first, those merged away included; each with its number of facts held."""
    return await _browse(memory, browse.ENTITIES, _checked(where, EntityState), wanted, lineage)


async def recent_activity(memory: Memory, limit: int, cursor: str | None, lineage: Lineage) -> Page:
    """What happened, newest first; the cursor is the id of the oldest event seen."""
    inputs.checked_limit(limit, MAX_LIMIT)
    seen = None if cursor is None else inputs.checked_id("cursor", cursor)
    async with memory.transaction(lineage) as tx:
        if seen is not None and not await events.exists(tx, id=seen):
            raise _unknown_event("cursor", seen)
        rows = await events.find_before(tx, event_id=seen, limit=limit + 1)
    more = len(rows) > limit
    items = [as_json(row) for row in rows[:limit]]
    return Page(items, items[-1]["id"] if more else None)


async def activity_after(
    memory: Memory, event_id: str | UUID, limit: int, lineage: Lineage
) -> Page:
    """What happened since an event, newest first; with a cursor there is more to ask for."""
    inputs.checked_limit(limit, MAX_LIMIT)
    seen = inputs.checked_id("after", event_id)
    async with memory.transaction(lineage) as tx:
        if not await events.exists(tx, id=seen):
            raise _unknown_event("after", seen)
        rows = await events.find_after(tx, event_id=seen, limit=limit + 1)
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
    """A page of rows of which one more than the limit was asked for, with where it goes on."""
    shown = rows[:limit]
    more = len(rows) > limit
    last = RowPosition(shown[-1]["created_at"], shown[-1]["id"]) if more else None
    return Page([as_json(row) for row in shown], inputs.encode(last) if last else None)


def _checked(
    where: FactFilter | RuleFilter | EpisodeFilter | EntityFilter, states: type[StrEnum]
) -> dict[str, Any]:
    """The fields of a filter, each a word, a line or an id."""
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


def _unknown_event(field: str, event_id: UUID) -> InvalidInput:
    return InvalidInput(f"{field}: found {event_id}; valid is the id of an event you were shown")


_TELLING = 15
"""So many of the newest events tell whether anything has happened."""


async def memory_stats(memory: Memory, scope: str | None, lineage: Lineage) -> dict[str, Any]:
    """Counts by kind and state; a scope counts its own facts and rules and the global ones.

    `episodes.backlog_age_hours` is None when nothing waits. A forgotten rule counts as such alone.
    """
    if scope is not None:
        scope = scopes.checked("scope", scope)
    async with memory.transaction(lineage) as tx:
        counted = await browse.count_memories(tx, scope=scope, now=memory.now())
    return {kind: counted[kind] for kind in ("episodes", "facts", "rules")}


async def memory_glance(
    memory: Memory, shown: int, lineage: Lineage
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All counts and when something was last consolidated; what happened last, newest first."""
    inputs.checked_limit(shown, MAX_LIMIT)
    async with memory.transaction(lineage) as tx:
        newest = await events.find_before(tx, event_id=None, limit=max(shown, _TELLING))
        # Counted after the events were read: if something happens in between, the next look tells.
        counted = await _counted(memory, tx, tuple(event["id"] for event in newest[:_TELLING]))
    return _overview(counted, memory.now()), [dict(event) for event in newest[:shown]]


async def _counted(memory: Memory, tx: Transaction, newest: tuple[UUID, ...]) -> Counted:
    """What was counted last, unless something has happened since: whatever changes a count is told.

    Several events are compared, because one may be told after another that it came before.
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
    """Counts for each of the last days, today included; by the audit stream, in UTC."""
    inputs.checked_limit(days, MAX_DAYS)
    shown = days_until(memory.now().date(), days + 1)
    async with memory.transaction(lineage) as tx:
        moves = await events.find_moves(tx, first_day=shown[0], last_day=shown[-1])
    return timeline(shown, moves)
