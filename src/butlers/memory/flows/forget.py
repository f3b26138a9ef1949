"""Letting go of memories: they stay in the database, but nobody is shown them any more."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, assert_never
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.memory.flows.authority import must_reach
from butlers.memory.flows.doubts import fallen_in
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import (
    Event,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
)
from butlers.memory.policy.attachments import checked_ref
from butlers.memory.policy.trust import excerpt_of
from butlers.memory.store import episodes, facts, rules


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Whether a memory was forgotten; which episodes it came from are still there, which were
    forgotten with it, and what is in doubt without it."""

    forgotten: bool
    sources: list[dict[str, Any]] = field(default_factory=list)
    sources_forgotten: list[dict[str, Any]] = field(default_factory=list)
    in_doubt: list[dict[str, Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.forgotten

    def as_dict(self) -> dict[str, Any]:
        """What came of it; of others only where there are any."""
        others = ("sources", "sources_forgotten", "in_doubt")
        told = {name: getattr(self, name) for name in others if getattr(self, name)}
        return {"forgotten": self.forgotten, **told}


async def forget_memory(
    memory: Memory,
    memory_type: str,
    memory_id: str | UUID,
    lineage: Lineage,
    *,
    with_sources: bool = False,
) -> Forgotten:
    """Forget a memory; with its sources, also the episodes from which nothing else current was
    drawn.

    Conflict where it is more trusted than the caller. Records one event for each memory forgotten.
    """
    ref, now = checked_ref("memory", memory_type, memory_id), memory.now()
    async with memory.begin(lineage) as work:
        await must_reach(work, ref, "forget")
        forgotten = await forget_in(work.tx, ref, now)
        if forgotten is not None:
            await work.record(forgotten, now)
        rows = await episodes.find_sources(work.tx, kind=ref.type, id=ref.id, now=now)
        gone = {row["id"] for row in rows if with_sources and _may_go(row, lineage)}
        for id in gone:
            await _forget_source(work, id)
        fallen = await fallen_in(work, [ref])
    told = {row["id"]: excerpt_of({"memory_type": MemoryType.EPISODE, **row}) for row in rows}
    left = [one for id, one in told.items() if id not in gone]
    return Forgotten(forgotten is not None, left, [told[id] for id in gone], fallen)


def _may_go(source: Row, lineage: Lineage) -> bool:
    return not source["serves"] and source["trust"] <= lineage.trust


async def _forget_source(work: UnitOfWork, id: UUID) -> None:
    told = await forget_in(work.tx, MemoryRef(MemoryType.EPISODE, id), work.now)
    assert told is not None, "it was there a moment ago, and is held"
    await work.record(told)


async def forget_in(tx: Transaction, ref: MemoryRef, now: datetime) -> Event | None:
    """What forgetting did, or None when there was nothing to forget."""
    match ref.type:
        case MemoryType.EPISODE:
            return _expired(ref, await episodes.forget(tx, id=ref.id, now=now), now)
        case MemoryType.FACT:
            was = await facts.retract(tx, id=ref.id)
            return _gone(EventType.FACT_RETRACTED, ref, was, "retracted")
        case MemoryType.RULE:
            was = await rules.forget(tx, id=ref.id)
            return _gone(EventType.RULE_FORGOTTEN, ref, was, "forgotten")
        case _:
            assert_never(ref.type)


def _expired(ref: MemoryRef, before: Row | None, now: datetime) -> Event | None:
    if before is None:
        return None
    until: datetime | None = before["was_expires_at"]
    moved = {"from": until.isoformat() if until else None, "to": now.isoformat()}
    payload = {"expires_at": moved}
    return Event(EventType.EPISODE_FORGOTTEN, ref.id, payload)


def _gone(kind: EventType, ref: MemoryRef, was: str | None, state: str) -> Event | None:
    if was is None:
        return None
    return Event(kind, ref.id, {"from": was, "to": state})
