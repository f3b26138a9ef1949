"""Quarantine: memories that are returned to nobody until a person has reviewed them."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from butlers.kernel.json_values import as_json
from butlers.memory.flows.authority import must_be_a_person
from butlers.memory.flows.conflict_detection import detect_conflicts
from butlers.memory.flows.fact_windows import (
    close_overlapping,
    find_placement,
    moved_window,
    record_closed,
    window_of,
    with_window,
)
from butlers.memory.flows.forget import forget_in
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import Event, EventType, Lineage, MemoryRef, MemoryType, NewFact
from butlers.memory.store import facts, quarantine
from butlers.memory.store.facts import FactKey

_RELEASED = {
    MemoryType.EPISODE: (EventType.EPISODE_ACCEPTED, "pending"),
    MemoryType.FACT: (EventType.FACT_ACCEPTED, "active"),
    MemoryType.RULE: (EventType.RULE_ACCEPTED, "candidate"),
}


async def find_quarantined(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """List quarantined memories with their reasons, oldest first. Only a person may ask."""
    must_be_a_person(lineage, "see what is in quarantine")
    async with memory.transaction(lineage) as tx:
        return [as_json(row) for row in await quarantine.find(tx, limit=limit, now=memory.now())]


async def get_quarantined(
    memory: Memory, ref: MemoryRef, lineage: Lineage
) -> dict[str, Any] | None:
    """Return a quarantined memory: to a person with its text, to others only its state and why."""
    async with memory.transaction(lineage) as tx:
        row = await quarantine.get(tx, id=ref.id, now=memory.now())
    if row is None or row["memory_type"] != ref.type:
        return None
    shown = row if lineage.origin.is_person else {k: row[k] for k in ("id", "state", "why")}
    return as_json(shown)


async def release_memory(memory: Memory, ref: MemoryRef, lineage: Lineage) -> bool:
    """Release a memory from quarantine; false if it is not in it.

    Only a person may do so. A fact supersedes the current one under its key. Records
    `fact_accepted`, `rule_accepted` or `episode_accepted`.
    """
    must_be_a_person(lineage, "accept what is in quarantine")
    now, (event, state) = memory.now(), _RELEASED[ref.type]
    async with memory.begin(lineage) as work:
        released = await _release(work, ref, now)
        if released is not None:
            payload = {"from": "quarantined", "to": state, "accepted_by": lineage.actor, **released}
            await work.record(Event(event, ref.id, payload), now)
    return released is not None


async def reject_memory(memory: Memory, ref: MemoryRef, lineage: Lineage) -> bool:
    """Forget a quarantined memory; false if it is not in quarantine. Only a person may do so."""
    must_be_a_person(lineage, "reject what is in quarantine")
    now = memory.now()
    async with memory.begin(lineage) as work:
        if not await quarantine.is_quarantined(work.tx, id=ref.id, now=now):
            return False
        if rejected := await forget_in(work.tx, ref, now):
            await work.record(rejected, now)
    return rejected is not None


async def _release(work: UnitOfWork, ref: MemoryRef, now: datetime) -> dict[str, Any] | None:
    """Release a memory and return the payload of its event; None if it is not quarantined.

    A fact becomes current under its key; since a person approved it, it supersedes others.
    """
    if ref.type is not MemoryType.FACT:
        is_rule = ref.type is MemoryType.RULE
        release = quarantine.release_rule if is_rule else quarantine.release_episode
        by = work.lineage.actor
        return {} if await release(work.tx, id=ref.id, now=now, accepted_by=by) else None
    row = await quarantine.lock_fact(work.tx, id=ref.id)
    if row is None:
        return None
    new = NewFact(**row)
    await facts.hold_keys(work.tx, FactKey.of(new))
    new = await with_window(work.tx, new, now)
    place = await find_placement(work.tx, new, now)
    await close_overlapping(work.tx, place)
    at = {"supersedes_id": place.replaced, "now": now, **asdict(place.window)}
    await quarantine.release_fact(work.tx, id=ref.id, accepted_by=work.lineage.actor, **at)
    await record_closed(work, ref.id, place)
    await detect_conflicts(work, ref.id, new)
    return moved_window(window_of(new), place.window)
