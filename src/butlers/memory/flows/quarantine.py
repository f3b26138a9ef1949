"""What waits in quarantine: stored and told to nobody until a person has judged it."""

from datetime import datetime
from typing import Any

from butlers.kernel.json_values import as_json
from butlers.memory.flows.authority import must_be_a_person
from butlers.memory.flows.conflict_detection import look_in
from butlers.memory.flows.fact_windows import (
    close_overlapping,
    columns,
    find_placement,
    in_time,
    moved_window,
    record_closed,
    window_of,
)
from butlers.memory.flows.forget import forget_in
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import (
    Event,
    EventType,
    Lineage,
    Maturity,
    MemoryRef,
    MemoryType,
    NewFact,
)
from butlers.memory.store import facts, quarantine
from butlers.memory.store.facts import FactKey

_ACCEPTED = {
    MemoryType.EPISODE: EventType.EPISODE_ACCEPTED,
    MemoryType.FACT: EventType.FACT_ACCEPTED,
    MemoryType.RULE: EventType.RULE_ACCEPTED,
}
_BECOMES = {
    MemoryType.EPISODE: "pending",
    MemoryType.FACT: "active",
    MemoryType.RULE: Maturity.CANDIDATE,
}


async def find_held(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """What waits, the longest waiting first, each with why."""
    must_be_a_person(lineage, "see what is in quarantine")
    async with memory.transaction(lineage) as tx:
        found = await quarantine.find(tx, limit=limit, now=memory.now())
    return [as_json(row) for row in found]


async def count_waiting(memory: Memory, lineage: Lineage) -> tuple[int, int]:
    """How much waits for a person: in quarantine, and as a proposal."""
    async with memory.transaction(lineage) as tx:
        row = await quarantine.count_waiting(tx, now=memory.now())
    return row["held"], row["proposed"]


async def accept_held(memory: Memory, ref: MemoryRef, lineage: Lineage) -> bool:
    """Let a memory out: it counts as any other of its origin; false when it does not wait."""
    must_be_a_person(lineage, "accept what is in quarantine")
    now = memory.now()
    async with memory.begin(lineage) as work:
        released = await _release(UnitOfWork(memory, work.tx, lineage), ref, now)
        if released is not None:
            payload = {"from": "quarantined", "to": _BECOMES[ref.type], **released}
            told = Event(_ACCEPTED[ref.type], ref.id, payload)
            await work.record(told, now)
    return released is not None


async def reject_held(memory: Memory, ref: MemoryRef, lineage: Lineage) -> bool:
    """Forget a memory that waits; restored, it would wait again. False when it does not wait."""
    must_be_a_person(lineage, "reject what is in quarantine")
    now = memory.now()
    async with memory.begin(lineage) as work:
        if not await quarantine.is_quarantined(work.tx, id=ref.id, now=now):
            return False
        rejected = await forget_in(work.tx, ref, now)
        if rejected is not None:
            await work.record(rejected, now)
    return rejected is not None


async def _release(work: UnitOfWork, ref: MemoryRef, now: datetime) -> dict[str, Any] | None:
    """What is told of a memory that is let out; None when it does not wait."""
    if ref.type is MemoryType.EPISODE:
        return {} if await quarantine.release_episode(work.tx, id=ref.id, now=now) else None
    if ref.type is MemoryType.RULE:
        return {} if await quarantine.release_rule(work.tx, id=ref.id, now=now) else None
    return await _release_fact(work, ref, now)


async def _release_fact(work: UnitOfWork, ref: MemoryRef, now: datetime) -> dict[str, Any] | None:
    """A fact takes its key: a person said yes to it, so that whatever holds the key gives way."""
    held = await quarantine.lock_fact(work.tx, id=ref.id)
    if held is None:
        return None
    new = NewFact(**held)
    await facts.hold_keys(work.tx, FactKey.of(new))
    new = await in_time(work.tx, new, now)
    place = await find_placement(work.tx, new, now)
    await close_overlapping(work.tx, place)
    at = {"supersedes_id": place.replaced, "now": now, **columns(place.window)}
    await quarantine.release_fact(work.tx, id=ref.id, **at)
    await record_closed(UnitOfWork(work.memory, work.tx, work.lineage), ref.id, place)
    await look_in(UnitOfWork(work.memory, work.tx, work.lineage), ref.id, new)
    return moved_window(window_of(new), place.window)
