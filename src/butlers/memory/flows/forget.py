"""Forgetting and restoring memories: what is forgotten stays stored but is shown to nobody."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, assert_never
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict
from butlers.kernel.text import preprocess_text
from butlers.kernel.words import prepared
from butlers.memory.flows.authority import must_reach
from butlers.memory.flows.doubts import find_in_doubt
from butlers.memory.flows.fact_windows import columns, find_standing, moved_window, window_of
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    Event,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
    Validity,
)
from butlers.memory.policy.attachments import checked_ref
from butlers.memory.policy.states import FactState, RuleUse
from butlers.memory.policy.trust import excerpt_of
from butlers.memory.policy.validity import Window, room
from butlers.memory.store import episodes, facts, retention, rules
from butlers.memory.store.facts import FactKey
from butlers.memory.store.locks import lock_names


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
        fallen = await find_in_doubt(work, [ref])
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


_PAST = (Validity.SUPERSEDED, Validity.EXPIRED, Validity.QUARANTINED)


async def restore_memory(
    memory: Memory, memory_type: str, memory_id: str | UUID, lineage: Lineage
) -> bool:
    """Take back that a fact or rule was forgotten, or an episode expired; false if none was.

    A memory whose place another has taken meanwhile is a Conflict that names it.
    """
    ref, now = checked_ref("memory", memory_type, memory_id), memory.now()
    if ref.type is MemoryType.EPISODE:
        return await _restore_episode(memory, ref.id, lineage)
    async with memory.begin(lineage) as work:
        await must_reach(work, ref, "restore")
        restored = await restore_in(work.tx, ref, now)
        if restored is not None:
            await work.record(restored, now)
    return restored is not None


async def restore_in(tx: Transaction, ref: MemoryRef, now: datetime) -> Event | None:
    """Take back that a fact or rule was forgotten; what happened, or None."""
    if ref.type is MemoryType.FACT:
        return await _restore_fact(tx, ref.id, now)
    state = await rules.restore(tx, id=ref.id)
    if state is None:
        return None
    payload = {"from": RuleUse.FORGOTTEN, "to": state}
    return Event(EventType.RULE_RESTORED, ref.id, payload)


async def _restore_episode(memory: Memory, episode_id: UUID, lineage: Lineage) -> bool:
    """Findable again, as read as it was, for as long as if it were new."""
    async with memory.transaction(lineage) as tx:
        text = await retention.get_binned_content(tx, id=episode_id)
    embedding = None if text is None else await memory.embed(text, lineage)
    now = memory.now()
    until = now + timedelta(days=memory.settings.episodes.default_ttl_days)
    async with memory.begin(lineage) as work:
        if text is None or embedding is None:
            state = was = await episodes.revive(work.tx, id=episode_id, expires_at=until, now=now)
        else:
            made = {"searchable": prepared(preprocess_text(text)), "expires_at": until}
            state, was = await _out_of_the_bin(work.tx, episode_id, embedding, made), "removed"
        if state is None:
            return False
        payload = {"from": was, "to": state, "expires_at": until.isoformat()}
        told = Event(EventType.EPISODE_RESTORED, episode_id, payload)
        await work.record(told, now)
    return True


async def _out_of_the_bin(
    tx: Transaction, episode_id: UUID, embedding: Embedding, made: dict[str, Any]
) -> str | None:
    # Of two who restore it at once, the other finds it gone.
    await lock_names(tx, "bin", str(episode_id))
    if await retention.get_binned_content(tx, id=episode_id) is None:
        return None
    vector = {"embedding": embedding.vector, "embedding_version_id": embedding.version_id}
    state = await retention.restore_binned(tx, id=episode_id, **vector, **made)
    if state is None:
        raise Conflict(f"episode {episode_id} cannot be restored: it was stored again since")
    await retention.take_from_bin(tx, id=episode_id)
    return state


async def _restore_fact(tx: Transaction, fact_id: UUID, now: datetime) -> Event | None:
    found = await facts.get_retracted(tx, id=fact_id)
    if found is None:
        return None
    state, before = _state_before(found), window_of(found)
    validity = Validity(state) if state in _PAST else Validity.ACTIVE
    window = before
    if validity is not Validity.QUARANTINED and not before.is_empty:
        window = await _free(tx, found, validity, now)
    if not await facts.restore(tx, id=fact_id, validity=validity, **columns(window)):
        return None
    payload = {"from": FactState.RETRACTED, "to": state}
    if window != before:
        payload |= moved_window(before, window)
    return Event(EventType.FACT_RESTORED, fact_id, payload)


def _state_before(found: Row) -> str:
    """What a reader will be shown: the past as it was, else whether it is fading."""
    if found["was"] in _PAST:
        return str(found["was"])
    return FactState.FADING if found["is_fading"] else FactState.ACTIVE


async def _free(tx: Transaction, found: Row, validity: Validity, now: datetime) -> Window:
    """What is left of a fact's time; nobody else stores under the key until this ends."""
    key = FactKey(found["scope"], found["predicate"], found["subject"], found["entity_id"])
    await facts.hold_keys(tx, key)
    window, told = window_of(found), await find_standing(tx, key)
    free = room(window, told, now)
    is_taken = free is None or (window.holds(now) and not free.holds(now))
    if is_taken and validity is Validity.ACTIVE:
        met = [one for one in told if one.window.meets(window)]
        holder = max(met, key=lambda one: one.window.holds(now))
        raise Conflict(
            f"fact {found['id']} cannot be restored: fact {holder.id} has taken its place; "
            "forget that one first"
        )
    return free or Window(now, now)
