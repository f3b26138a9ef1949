"""Placing a fact among others of its key: their windows close, or it inherits what it repeats."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import NotFound
from butlers.memory.flows.feedback import confirm_in
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
from butlers.memory.policy.spoken_window import dated
from butlers.memory.policy.validity import ExistingFact, Placement, Window, WindowChange
from butlers.memory.records import INPUT
from butlers.memory.store import facts, links
from butlers.memory.store.facts import FactKey


def window_of(row: Row | NewFact) -> Window:
    """When something holds, as its row or its teller says."""
    if isinstance(row, NewFact):
        return Window(row.valid_from, row.valid_to)
    return Window(row["valid_from"], row["valid_to"])


async def in_time(tx: Transaction, new: NewFact, now: datetime) -> NewFact:
    """A fact with the time that its statement tells of; one of another time than now only beside a
    fact that holds now, for else it is the best that is known."""
    told = dated(new, now)
    if window_of(told).holds(now):
        return told
    return told if await facts.get_active(tx, FactKey.of(new), now) else new


async def find_placement(tx: Transaction, new: NewFact, now: datetime) -> Placement:
    """Where a new fact goes, under a held key."""
    wanted, key = window_of(new), FactKey.of(new)
    found = await facts.find_active(tx, key, new.content)
    # What holds now leaves no room for anything replaced or faded, of which there may be much.
    if not wanted.is_open or not any(window_of(row).holds(now) for row in found):
        found = await facts.find_by_key(tx, key, new.content)
    return validity.place_fact(wanted, list(map(existing_fact, found)), now, new.said_at)


async def find_standing(tx: Transaction, key: FactKey, *without: UUID) -> list[ExistingFact]:
    """What is told of a key at any time, but for some."""
    told = await facts.find_by_key(tx, key, "")
    return [existing_fact(row) for row in told if row["id"] not in without]


def existing_fact(row: Row) -> ExistingFact:
    """A fact as policy knows it."""
    return ExistingFact(
        row["id"],
        window_of(row),
        row["since"],
        row["validity"] == Validity.ACTIVE,
        row["says_same"],
        row["trust"],
        row["was"],
    )


def stronger(place: Placement, trust: int) -> ExistingFact | None:
    """What a fact may not change: the more trusted, unless it has faded."""
    met = (one.of for one in place.changes if one.of.was != Validity.EXPIRED)
    return next((one for one in met if one.trust > trust), None)


async def close_overlapping(tx: Transaction, place: Placement) -> None:
    """What a fact changes holds at another time, or gives way, before the fact is there."""
    for one in place.changes:
        state = _validity(one)
        await facts.set_window(tx, id=one.of.id, validity=state, **columns(one.window))


async def record_closed(work: UnitOfWork, fact_id: UUID, place: Placement) -> None:
    """Tell the audit stream what a fact changed; link it to what it replaced."""
    now = work.now
    for one in place.changes:
        await _record_change(work, fact_id, one)
        if one.gives_way:
            await links.insert(work.tx, _link(fact_id, Relation.SUPERSEDES, one.of.id), now)
        if one.copy is not None:
            await _copy(work, one.of.id, one.copy)


def columns(window: Window) -> dict[str, Any]:
    """A window as its columns."""
    return {"valid_from": window.valid_from, "valid_to": window.valid_to}


def stated_window(window: Window) -> dict[str, Any]:
    """What an event tells of when a fact holds, where that is known."""
    named = zip(("valid_from", "valid_to"), window.told(), strict=True)
    return {name: at for name, at in named if at is not None}


def moved_window(before: Window, after: Window) -> dict[str, Any]:
    """What an event tells of a window that has changed."""
    return {"window": {"from": before.told(), "to": after.told()}}


async def _record_change(work: UnitOfWork, fact_id: UUID, one: WindowChange) -> None:
    payload = moved_window(one.of.window, one.window)
    if one.gives_way:
        payload |= {"from": one.of.was, "to": "superseded", "superseded_by": str(fact_id)}
        kind = EventType.FACT_SUPERSEDED
    else:
        payload |= {"bounded_by": str(fact_id)}
        kind = EventType.FACT_BOUNDED
    event = Event(kind, one.of.id, payload)
    await work.record(event)


async def _copy(work: UnitOfWork, fact_id: UUID, window: Window) -> None:
    """A fact that held twice is there twice, the second time drawn from the first."""
    copy_id, now = work.new_id(), work.now
    await facts.copy(work.tx, id=fact_id, copy_id=copy_id, now=now, **columns(window))
    copied = (await facts.find(work.tx, ids=[copy_id], now=now))[0]
    payload = {
        "to": copied["state"],
        **{name: copied[name] for name in ("subject", "predicate", "scope", "permanence")},
        "supersedes": None,
        "source_butler": copied["source_butler"],
        "source_episode_id": copied["source_episode_id"] and str(copied["source_episode_id"]),
        **stated_window(window),
        "copy_of": str(fact_id),
    }
    event = Event(EventType.FACT_CREATED, copy_id, payload)
    await work.record(event, now)
    await link_in(work, _link(copy_id, Relation.DERIVED_FROM, fact_id))
    for source in await links.find_sources(work.tx, id=fact_id):
        await link_in(work, _drawn(copy_id, source))


async def inherit_sources(work: UnitOfWork, fact_id: UUID, before_id: UUID) -> list[UUID]:
    """Draw a fact from whatever another was drawn from; which memories these are."""
    found = await links.find_sources(work.tx, id=before_id)
    for source in found:
        await link_in(work, _drawn(fact_id, source))
    return [source["id"] for source in found]


def _drawn(fact_id: UUID, source: Row) -> Link:
    target = MemoryRef(MemoryType(source["kind"]), source["id"])
    return Link(MemoryRef(MemoryType.FACT, fact_id), Relation.DERIVED_FROM, target)


def _link(source: UUID, relation: Relation, target: UUID) -> Link:
    return Link(MemoryRef(MemoryType.FACT, source), relation, MemoryRef(MemoryType.FACT, target))


def _validity(one: WindowChange) -> str:
    if one.gives_way:
        return Validity.SUPERSEDED
    return one.of.was if one.of.was in set(Validity) else Validity.ACTIVE


def merged_with(new: NewFact, before: Row) -> NewFact:
    """A fact with what the one before it had, where that is more."""
    inherited = {
        name: column.restated(getattr(new, name), before[name])
        for name, column in INPUT[NewFact].items()
        if column.restated is not None
    }
    return replace(new, **inherited | {"tags": inherited["tags"][:MAX_TAGS]})


def only_confirms(new: NewFact, before: Row, place: Placement) -> bool:
    """Whether a fact says nothing beyond the one before it."""
    said = merged_with(new, before)
    raised = (said.importance, said.permanence) != (before["importance"], before["permanence"])
    noted = set(said.tags) != set(before["tags"]) or bool(new.metadata)
    return not raised and not noted and place.window == window_of(before)


async def confirm_by(work: UnitOfWork, ref: MemoryRef, episode_ids: Sequence[UUID]) -> None:
    """Confirm a memory and keep which episodes did."""
    if not await confirm_in(work, ref, episode_ids):
        raise NotFound(f"{ref.type} {ref.id} is not in use any more; it was left as it is")
    for id in episode_ids:
        said = Link(MemoryRef(MemoryType.EPISODE, id), Relation.SUPPORTS, ref)
        await link_in(work, said)


async def inherit_history(work: UnitOfWork, before: Row, fact_id: UUID) -> None:
    """Give a fact the uses and sources of the one before it, and tell that it was confirmed."""
    now = work.now
    await facts.inherit(work.tx, id=fact_id, before_id=before["id"])
    sources = await inherit_sources(work, fact_id, before["id"])
    drawn = {*sources, before["source_episode_id"]} - {None}
    was = before["last_confirmed_at"]
    payload = {
        "last_confirmed_at": {"from": was and was.isoformat(), "to": now.isoformat()},
        "same_as": str(before["id"]),
        "inherited": sorted(map(str, drawn)),
    }
    event = Event(EventType.FACT_CONFIRMED, fact_id, payload)
    await work.record(event, now)
