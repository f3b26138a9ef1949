"""Letting go of memories: they stay in the database, but nobody is shown them any more."""

from datetime import datetime
from typing import assert_never
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.memory.flows.authority import must_reach
from butlers.memory.handle import Memory
from butlers.memory.model import (
    Event,
    EventSubject,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
)
from butlers.memory.policy.attachments import checked_ref
from butlers.memory.store import episodes, facts, rules


async def forget_memory(
    memory: Memory, memory_type: str, memory_id: str | UUID, lineage: Lineage
) -> bool:
    """Forget a memory; false when there is none or it was forgotten before."""
    ref, now = checked_ref("memory", memory_type, memory_id), memory.now()
    async with memory.transaction(lineage) as tx:
        await must_reach(tx, ref, lineage, "forget")
        forgotten = await forget_in(tx, ref, now)
        if forgotten is not None:
            await memory.record(tx, forgotten, lineage, now)
    return forgotten is not None


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
    return Event(EventType.EPISODE_FORGOTTEN, EventSubject.EPISODE, ref.id, payload)


def _gone(kind: EventType, ref: MemoryRef, was: str | None, state: str) -> Event | None:
    if was is None:
        return None
    return Event(kind, EventSubject(ref.type), ref.id, {"from": was, "to": state})
