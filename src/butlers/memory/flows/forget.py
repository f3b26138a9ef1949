"""Forget and restore memories: what is forgotten stays stored but is returned to nobody."""

from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict
from butlers.memory.flows.authority import refuse_more_trusted
from butlers.memory.flows.doubts import find_in_doubt
from butlers.memory.flows.fact_windows import find_existing, moved_window, window_of
from butlers.memory.flows.feedback import moved_time
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.limits import PIECE_DAYS
from butlers.memory.model import Event, EventType, Lineage, MemoryRef, MemoryType, Validity
from butlers.memory.policy.inputs import checked_ref
from butlers.memory.policy.states import FactState, RuleUse
from butlers.memory.policy.trust import excerpt_of
from butlers.memory.policy.validity import Window, room
from butlers.memory.store import episodes, facts, retention, rules
from butlers.memory.store.facts import FactKey

_PAST = (Validity.SUPERSEDED, Validity.EXPIRED, Validity.QUARANTINED)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Whether a memory was forgotten, its source episodes that stay or were forgotten with it,
    and what is in doubt without it."""

    forgotten: bool
    sources: list[dict[str, Any]] = field(default_factory=list)
    sources_forgotten: list[dict[str, Any]] = field(default_factory=list)
    in_doubt: list[dict[str, Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.forgotten

    def as_dict(self) -> dict[str, Any]:
        """Return whether it was forgotten, and the lists that are not empty."""
        return {name: value for name, value in asdict(self).items() if value or value is False}


async def forget_memory(
    memory: Memory,
    memory_type: str,
    memory_id: str | UUID,
    lineage: Lineage,
    *,
    with_sources: bool = False,
) -> Forgotten:
    """Forget a memory; with its sources, also the episodes that no other current memory came from.

    Refuses a memory that is more trusted than the caller. Records one event for each memory
    forgotten: `fact_retracted`, `rule_forgotten` or `episode_forgotten`.
    """
    ref, now = checked_ref("memory", memory_type, memory_id), memory.now()
    async with memory.begin(lineage) as work:
        await refuse_more_trusted(work, ref, "forget")
        if forgotten := await forget_in(work.tx, ref, now):
            await work.record(forgotten, now)
        rows = await episodes.find_sources(work.tx, kind=ref.type, id=ref.id, now=now)
        unused = [row for row in rows if not row["serves"] and row["trust"] <= lineage.trust]
        gone = {row["id"] for row in unused if with_sources}
        for id in gone:
            event = await forget_in(work.tx, MemoryRef(MemoryType.EPISODE, id), work.now)
            assert event is not None, "it existed a moment ago, and is locked"
            await work.record(event)
        in_doubt = await find_in_doubt(work, [ref])
    excerpts = {row["id"]: excerpt_of({"memory_type": MemoryType.EPISODE, **row}) for row in rows}
    left = [excerpt for id, excerpt in excerpts.items() if id not in gone]
    return Forgotten(forgotten is not None, left, [excerpts[id] for id in gone], in_doubt)


async def forget_in(tx: Transaction, ref: MemoryRef, now: datetime) -> Event | None:
    """Forget a memory in a transaction; return the event, or None if there was nothing to do."""
    kind, payload = EventType.EPISODE_FORGOTTEN, dict[str, Any]()
    if ref.type is MemoryType.EPISODE:
        before = await episodes.forget(tx, id=ref.id, now=now)
        if before is not None:
            payload = {"expires_at": moved_time(before["was_expires_at"], now)}
    elif ref.type is MemoryType.FACT:
        kind, was = EventType.FACT_RETRACTED, await facts.retract(tx, id=ref.id)
        payload = {"from": was, "to": "retracted"} if was else {}
    else:
        kind, was = EventType.RULE_FORGOTTEN, await rules.forget(tx, id=ref.id)
        payload = {"from": was, "to": "forgotten"} if was else {}
    return Event(kind, ref.id, payload) if payload else None


async def restore_memory(
    memory: Memory, memory_type: str, memory_id: str | UUID, lineage: Lineage
) -> bool:
    """Restore a forgotten fact or rule, or an expired episode; false if there is none.

    Refuses what is more trusted than the caller, and a fact whose window another has taken.
    """
    ref = checked_ref("memory", memory_type, memory_id)
    if ref.type is MemoryType.EPISODE:
        return await _restore_episode(memory, ref.id, lineage)
    async with memory.begin(lineage) as work:
        await refuse_more_trusted(work, ref, "restore")
        if restored := await restore_in(work.tx, ref, work.now):
            await work.record(restored)
    return restored is not None


async def restore_in(tx: Transaction, ref: MemoryRef, now: datetime) -> Event | None:
    """Restore a forgotten fact or rule in a transaction; return the event, or None."""
    if ref.type is MemoryType.FACT:
        return await _restore_fact(tx, ref.id, now)
    state = await rules.restore(tx, id=ref.id)
    payload = {"from": RuleUse.FORGOTTEN, "to": state}
    return Event(EventType.RULE_RESTORED, ref.id, payload) if state is not None else None


async def revive_in(work: UnitOfWork, episode_id: UUID) -> Event | None:
    """Give an expired episode a new expiry in a transaction; return the event, or None."""
    row = await episodes.revive(work.tx, id=episode_id, now=work.now, **_expiries(work))
    return _restored(episode_id, row["state"], row) if row else None


def _expiries(work: UnitOfWork) -> dict[str, datetime]:
    """Return when an episode that is restored expires, and when a piece does."""
    days = {"expires_at": work.settings.episodes.default_ttl_days, "piece_expires_at": PIECE_DAYS}
    return {name: work.now + timedelta(days=count) for name, count in days.items()}


def _restored(episode_id: UUID, was: str, row: Row) -> Event:
    payload = {"from": was, "to": row["state"], "expires_at": row["expires_at"].isoformat()}
    return Event(EventType.EPISODE_RESTORED, episode_id, payload)


async def _restore_episode(memory: Memory, episode_id: UUID, lineage: Lineage) -> bool:
    """Make an episode current again, in its state of consolidation, as long as a new one."""
    async with memory.transaction(lineage) as tx:
        text = await retention.get_binned_content(tx, id=episode_id)
    embeddings = await memory.embed([] if text is None else [text], lineage)
    async with memory.begin(lineage) as work:
        if text is None:
            event = await revive_in(work, episode_id)
        else:
            event = await _restore_binned(work, episode_id, text, embeddings[0])
        if event is not None:
            await work.record(event)
    return event is not None


async def _restore_binned(
    work: UnitOfWork, episode_id: UUID, text: str, embedding: Embedding
) -> Event | None:
    """Take an episode out of the bin; None if somebody else did so meanwhile. Locks it."""
    tx = work.tx
    await tx.lock_names("bin", str(episode_id))
    if await retention.get_binned_content(tx, id=episode_id) is None:
        return None
    columns = {**_expiries(work), **embedding.columns(text)}
    row = await retention.restore_binned(tx, id=episode_id, **columns)
    if row is None:
        raise Conflict(f"episode {episode_id} cannot be restored: it was stored again since")
    await retention.take_from_bin(tx, id=episode_id)
    return _restored(episode_id, "removed", row)


async def _restore_fact(tx: Transaction, fact_id: UUID, now: datetime) -> Event | None:
    row = await facts.get_retracted(tx, id=fact_id)
    if row is None:
        return None
    state, validity = "fading" if row["is_fading"] else "active", Validity.ACTIVE
    if row["was"] in _PAST:
        state, validity = row["was"], Validity(row["was"])
    before = window = window_of(row)
    if validity is not Validity.QUARANTINED and not before.is_empty:
        window = await _free_window(tx, row, validity, now)
    if not await facts.restore(tx, id=fact_id, validity=validity, **asdict(window)):
        return None
    payload = {"from": FactState.RETRACTED, "to": state}
    moved = moved_window(before, window) if window != before else {}
    return Event(EventType.FACT_RESTORED, fact_id, payload | moved)


async def _free_window(tx: Transaction, row: Row, validity: Validity, now: datetime) -> Window:
    """Return what is free of a fact's window; Conflict if a current fact has lost it. Locks."""
    key = FactKey(row["scope"], row["predicate"], row["subject"], row["entity_id"])
    await facts.hold_keys(tx, key)
    window, existing = window_of(row), await find_existing(tx, key)
    free = room(window, existing, now)
    is_taken = free is None or (window.holds(now) and not free.holds(now))
    if is_taken and validity is Validity.ACTIVE:
        overlapping = [fact for fact in existing if fact.window.meets(window)]
        holder = max(overlapping, key=lambda fact: fact.window.holds(now))
        raise Conflict(
            f"fact {row['id']} cannot be restored: fact {holder.id} has replaced it; "
            "forget that one first"
        )
    return free or Window(now, now)
