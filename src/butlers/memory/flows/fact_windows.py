"""Place a fact among others of its key: close their windows, or inherit what it repeats."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import NotFound
from butlers.memory.flows.feedback import confirm_in, moved_time
from butlers.memory.flows.links import link_in
from butlers.memory.handle import UnitOfWork
from butlers.memory.model import (
    Event,
    EventType,
    Link,
    MemoryRef,
    MemoryType,
    NewFact,
    Relation,
    Validity,
)
from butlers.memory.policy import validity
from butlers.memory.policy.inputs import MAX_TAGS
from butlers.memory.policy.spoken_window import TIME_CUE, dated
from butlers.memory.policy.validity import OPEN, ExistingFact, Placement, Window
from butlers.memory.records import INPUT
from butlers.memory.store import episodes, facts, links
from butlers.memory.store.facts import FactKey

_CIRCUMSTANCES = ("session_id", "place", "author", "said_at")


def window_of(row: Row | NewFact) -> Window:
    """Return the validity window of a row or a new fact."""
    if isinstance(row, NewFact):
        return Window(row.valid_from, row.valid_to)
    return Window(row["valid_from"], row["valid_to"])


async def with_window(tx: Transaction, new: NewFact, now: datetime) -> NewFact:
    """Add the validity window that a fact's words state.

    Without a current fact beside it, one that is not valid now stays undated: nothing better is
    known.
    """
    if not TIME_CUE.search(new.content):
        return new
    dated_fact = dated(new, now)
    if window_of(dated_fact).holds(now):
        return dated_fact
    current = await facts.get_active(tx, at=now, **asdict(FactKey.of(new)))
    return dated_fact if current else new


async def with_circumstances(tx: Transaction, new: NewFact) -> NewFact:
    """Add where, when and by whom the source episode was said, if there is exactly one."""
    if new.source_episode_id is None:
        return new
    source = await episodes.get_source(tx, id=new.source_episode_id) or {}
    return replace(new, **{name: source[name] for name in _CIRCUMSTANCES if name in source})


async def find_placement(
    tx: Transaction, new: NewFact, now: datetime, *, is_first: bool = False
) -> Placement:
    """Find the window of a new fact and what it changes; its key must be locked.

    `is_first`: no fact about its subject was stored before its key was locked.
    """
    wanted, about = window_of(new), {"content": new.content, **asdict(FactKey.of(new))}
    rows = [] if is_first else await facts.find_active(tx, **about)
    # A current fact leaves no room for superseded or expired ones, of which there may be many.
    if wanted != OPEN or not any(window_of(row).holds(now) for row in rows):
        rows = await facts.find_by_key(tx, **about)
    if not rows:
        return Placement(wanted, is_first=is_first)
    return validity.place_fact(wanted, list(map(existing_fact, rows)), now, new.said_at)


async def find_existing(tx: Transaction, key: FactKey, *without: UUID) -> list[ExistingFact]:
    """Load the facts of a key, past and present, except some."""
    rows = await facts.find_by_key(tx, content="", **asdict(key))
    return [existing_fact(row) for row in rows if row["id"] not in without]


def existing_fact(row: Row) -> ExistingFact:
    """Build the policy's view of a stored fact."""
    return ExistingFact(
        row["id"],
        window_of(row),
        row["since"],
        row["validity"] == Validity.ACTIVE,
        row["says_same"],
        row["trust"],
        row["was"],
    )


def more_trusted(place: Placement, trust: int) -> ExistingFact | None:
    """Return a fact that the new one may not change: more trusted, and not expired."""
    changed = (change.of for change in place.changes if change.of.was != Validity.EXPIRED)
    return next((fact for fact in changed if fact.trust > trust), None)


async def close_overlapping(tx: Transaction, place: Placement) -> None:
    """Write the new windows of the facts that a new one changes, before that is inserted."""
    for change in place.changes:
        was = change.of.was if change.of.was in set(Validity) else Validity.ACTIVE
        state = Validity.SUPERSEDED if change.gives_way else was
        await facts.set_window(tx, id=change.of.id, validity=state, **asdict(change.window))


async def record_closed(work: UnitOfWork, fact_id: UUID, place: Placement) -> None:
    """Record `fact_superseded` or `fact_bounded` for each change; link what was superseded."""
    now = work.now
    for change in place.changes:
        fact, payload = change.of, moved_window(change.of.window, change.window)
        if change.gives_way:
            payload |= {"from": fact.was, "to": "superseded", "superseded_by": str(fact_id)}
            await work.record(Event(EventType.FACT_SUPERSEDED, fact.id, payload))
            await links.insert(work.tx, _link(fact_id, Relation.SUPERSEDES, fact.id), now)
        else:
            payload |= {"bounded_by": str(fact_id)}
            await work.record(Event(EventType.FACT_BOUNDED, fact.id, payload))
        if change.copy is not None:
            await _copy(work, fact.id, change.copy)


def stated_window(window: Window) -> dict[str, Any]:
    """Return the ends of a window that are known, for an event."""
    return {name: at.isoformat() for name, at in asdict(window).items() if at is not None}


def moved_window(before: Window, after: Window) -> dict[str, Any]:
    """Return a changed window, for an event."""
    return {"window": {"from": before.told(), "to": after.told()}}


async def _copy(work: UnitOfWork, fact_id: UUID, window: Window) -> None:
    """Store a fact a second time, for a second window; the copy is derived from the first."""
    copy_id, now = work.memory.new_id(), work.now
    await facts.copy(work.tx, id=fact_id, copy_id=copy_id, now=now, **asdict(window))
    [row] = await facts.find(work.tx, ids=[copy_id], now=now)
    source, same = row["source_episode_id"], ("subject", "predicate", "scope", "permanence")
    payload = {name: row[name] for name in (*same, "source_butler")} | stated_window(window)
    payload |= {"to": row["state"], "supersedes": None, "copy_of": str(fact_id)}
    payload["source_episode_id"] = source and str(source)
    await work.record(Event(EventType.FACT_CREATED, copy_id, payload), now)
    await link_in(work, _link(copy_id, Relation.DERIVED_FROM, fact_id))
    await inherit_sources(work, copy_id, fact_id)


async def inherit_sources(work: UnitOfWork, fact_id: UUID, before_id: UUID) -> list[UUID]:
    """Derive a fact from what another is derived from; return the ids of these sources."""
    sources = await links.find_sources(work.tx, id=before_id)
    for row in sources:
        source = MemoryRef(MemoryType(row["kind"]), row["id"])
        fact = MemoryRef(MemoryType.FACT, fact_id)
        await link_in(work, Link(fact, Relation.DERIVED_FROM, source))
    return [row["id"] for row in sources]


def _link(source: UUID, relation: Relation, target: UUID) -> Link:
    return Link(MemoryRef(MemoryType.FACT, source), relation, MemoryRef(MemoryType.FACT, target))


def merged_with(new: NewFact, before: Row) -> NewFact:
    """Return a restated fact with what it inherits from the one before."""
    inherited = {
        name: column.restated(getattr(new, name), before[name])
        for name, column in INPUT[NewFact].items()
        if column.restated is not None
    }
    return replace(new, **inherited | {"tags": inherited["tags"][:MAX_TAGS]})


def only_confirms(new: NewFact, before: Row, place: Placement) -> bool:
    """Return whether a fact says nothing beyond the one before it."""
    merged = merged_with(new, before)
    raised = (merged.importance, merged.permanence) != (before["importance"], before["permanence"])
    annotated = set(merged.tags) != set(before["tags"]) or bool(new.metadata)
    return not raised and not annotated and place.window == window_of(before)


async def confirm_by(work: UnitOfWork, ref: MemoryRef, episode_ids: Sequence[UUID]) -> None:
    """Confirm a memory and link the episodes that support it."""
    if not await confirm_in(work, ref, episode_ids):
        raise NotFound(f"{ref.type} {ref.id} is no longer current; it was not changed")
    for id in episode_ids:
        await link_in(work, Link(MemoryRef(MemoryType.EPISODE, id), Relation.SUPPORTS, ref))


async def inherit_history(work: UnitOfWork, before: Row, fact_id: UUID, at: datetime) -> None:
    """Give a fact the uses and sources of the one before it. Records `fact_confirmed`."""
    now = work.now
    await facts.inherit(work.tx, id=fact_id, before_id=before["id"])
    sources = await inherit_sources(work, fact_id, before["id"])
    payload = {
        "last_confirmed_at": moved_time(before["last_confirmed_at"], at),
        "same_as": str(before["id"]),
        "inherited": sorted(map(str, {*sources, before["source_episode_id"]} - {None})),
    }
    await work.record(Event(EventType.FACT_CONFIRMED, fact_id, payload), now)
