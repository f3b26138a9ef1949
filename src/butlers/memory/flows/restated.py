"""Storing what a fact says already: the new one inherits, and it reads as a confirmation."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from butlers.db.postgres import Row
from butlers.errors import NotFound
from butlers.memory.flows.fact_windows import inherit_sources, window_of
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
)
from butlers.memory.policy.inputs import MAX_TAGS
from butlers.memory.policy.validity import Placement
from butlers.memory.records import INPUT
from butlers.memory.store import facts


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
