"""Storing what a fact says already: the new one inherits, and it reads as a confirmation."""

from dataclasses import replace
from uuid import UUID

from butlers.db.postgres import Row
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
from butlers.memory.policy.confidence import DECAY_RATES
from butlers.memory.policy.inputs import MAX_TAGS
from butlers.memory.policy.validity import Placement
from butlers.memory.store import facts


def merged_with(new: NewFact, before: Row) -> NewFact:
    """A fact with what the one before it had, where that is more."""
    kept = {name: one for name, one in before["metadata"].items() if name != "status"}
    return replace(
        new,
        importance=max(new.importance, before["importance"]),
        permanence=min(new.permanence, before["permanence"], key=DECAY_RATES.__getitem__),
        confidence=max(new.confidence, before["confidence"]),
        source_episode_id=new.source_episode_id or before["source_episode_id"],
        tags=tuple(dict.fromkeys((*before["tags"], *new.tags)))[:MAX_TAGS],
        metadata={**kept, **new.metadata},
    )


def only_confirms(new: NewFact, before: Row, place: Placement) -> bool:
    """Whether a fact says nothing beyond the one before it."""
    said = merged_with(new, before)
    raised = (said.importance, said.permanence) != (before["importance"], before["permanence"])
    noted = set(said.tags) != set(before["tags"]) or bool(new.metadata)
    return not raised and not noted and place.window == window_of(before)


async def confirm_instead(work: UnitOfWork, before_id: UUID, new: NewFact) -> None:
    """Confirm the fact before, by the episode that says it again if there is one."""
    fact = MemoryRef(MemoryType.FACT, before_id)
    episodes = [new.source_episode_id] if new.source_episode_id else []
    await confirm_in(work, fact, episodes)
    for id in episodes:
        said = Link(MemoryRef(MemoryType.EPISODE, id), Relation.SUPPORTS, fact)
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
