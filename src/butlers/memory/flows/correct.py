"""Correct a memory: a new one supersedes it, and the old one stays readable."""

from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict, NotFound
from butlers.kernel.text import says_the_same
from butlers.memory.flows.authority import STORES, refuse_more_trusted
from butlers.memory.flows.doubts import find_in_doubt
from butlers.memory.flows.fact_windows import existing_fact, inherit_sources
from butlers.memory.flows.forget import forget_in
from butlers.memory.flows.links import link_in
from butlers.memory.flows.memory_checks import checked
from butlers.memory.flows.proposals import propose_fact
from butlers.memory.flows.provenance import link_repeated, provenance_of
from butlers.memory.flows.remember import insert_fact, store_in
from butlers.memory.flows.results import StoredFact
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    Lineage,
    Link,
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Permanence,
    Provenance,
    Relation,
)
from butlers.memory.policy import inputs, trust
from butlers.memory.policy.inputs import masked_between
from butlers.memory.policy.validity import (
    OPEN,
    ExistingFact,
    Placement,
    Window,
    place_exactly,
    room,
)
from butlers.memory.records import INPUT, without_status
from butlers.memory.store import entities, facts
from butlers.memory.store.facts import FactKey

_OF_THE_SOURCE = [name for name, column in INPUT[NewFact].items() if column.of_source]


async def correct_fact(
    memory: Memory,
    fact_id: str | UUID,
    content: str,
    lineage: Lineage,
    *,
    importance: float | None = None,
    permanence: str | None = None,
) -> StoredFact:
    """Store what a fact should have said, under the same key; what is not given stays.

    Refuses a fact that is not current. Correcting a more trusted fact waits as a proposal. Locks
    the entity and the key. Records `fact_created` and `fact_superseded`.
    """
    wanted = inputs.checked_id("fact_id", fact_id)
    new = await _corrected(memory, wanted, content, lineage)
    if importance is not None:
        new = replace(new, importance=importance)
    if permanence is not None:
        new = replace(new, permanence=inputs.checked_word("permanence", permanence, Permanence))
    given, new = new, await checked(memory, new)
    [embedding] = await memory.embed([new.searchable_text], lineage)
    async with memory.begin(lineage) as work:
        stored = await _correct(work, wanted, new, embedding)
        if before := stored.superseded_id:
            doubts = await find_in_doubt(work, [MemoryRef(MemoryType.FACT, before)])
            stored = replace(stored, in_doubt=doubts)
    return replace(stored, masked=masked_between(given, new))


async def correct_memory(
    memory: Memory, ref: MemoryRef, content: str, lineage: Lineage
) -> StoredFact:
    """Store what a rule or episode should have said, linked to the wrong one, which is forgotten.

    Refuses one that is not current, or more trusted than the caller. Records what each step does.
    """
    new = await checked(memory, given := await _restated(memory, ref, content, lineage))
    [embedding] = await memory.embed([new.searchable_text], lineage)
    async with memory.begin(lineage) as work:
        id = await _replace(work, ref, new, embedding)
    return StoredFact(id, ref.id, masked=masked_between(given, new))


async def undo_correction(memory: Memory, fact_id: str | UUID, lineage: Lineage) -> StoredFact:
    """Store again what the fact that this one superseded said; both stay readable.

    Refuses a fact that is not current or superseded none. Locks and records as a correction does.
    """
    wanted = inputs.checked_id("fact_id", fact_id)
    async with memory.transaction(lineage) as tx:
        new = _as_new(await _superseded_by(tx, wanted, memory.now()))
    [embedding] = await memory.embed([new.searchable_text], lineage)
    async with memory.begin(lineage) as work:
        return await _revert(work, wanted, new, embedding)


async def _correct(work: UnitOfWork, fact_id: UUID, new: NewFact, made: Embedding) -> StoredFact:
    """Store a correction for the window of the wrong fact, which then never was valid."""
    wrong, others = await _lock_fact(work, fact_id, new)
    sourced = await provenance_of(work, new, made)
    provenance, place = sourced.provenance, Placement(wrong.window)
    if not provenance.quarantined:
        if wrong.trust > provenance.trust:
            return await _propose(work, new, wrong)
        place = place_exactly(wrong.window, others, work.now, wrong)
    if wrong.says_same:
        [before] = await facts.find(work.tx, ids=[fact_id], now=work.now)
        provenance = trust.restating(provenance, before)
    stored = await insert_fact(work, new, made, provenance, place)
    await link_repeated(work, stored.ref, sourced)
    await facts.inherit(work.tx, id=stored.id, before_id=fact_id)
    if wrong.says_same:
        await inherit_sources(work, stored.id, fact_id)
    return stored


async def _revert(work: UnitOfWork, fact_id: UUID, new: NewFact, made: Embedding) -> StoredFact:
    """Store a superseded fact again: for its window, with its sources and provenance."""
    now, (wrong, others) = work.now, await _lock_fact(work, fact_id, new)
    before = await _superseded_by(work.tx, fact_id, now)
    free = [fact for fact in others if fact.id != before["id"]]
    window = room(_window_before(before, wrong.window), free, now) or wrong.window
    place = place_exactly(window, others, now, wrong)
    if wrong.trust > work.lineage.trust:
        return await _propose(work, new, wrong)
    provenance = Provenance(**{field.name: before[field.name] for field in fields(Provenance)})
    confirmed_at = before["last_confirmed_at"]
    stored = await insert_fact(work, new, made, provenance, place, confirmed_at)
    await facts.inherit(work.tx, id=stored.id, before_id=fact_id)
    await inherit_sources(work, stored.id, before["id"])
    return stored


async def _lock_fact(
    work: UnitOfWork, fact_id: UUID, new: NewFact
) -> tuple[ExistingFact, list[ExistingFact]]:
    """Lock a fact's key; return the fact, checked again, and the others of the key."""
    if new.entity_id is not None:
        await entities.lock_unmerged(work.tx, new.entity_id)
    key = FactKey.of(new)
    await facts.hold_keys(work.tx, key)
    await _get_current(work.tx, fact_id, work.now)
    rows = await facts.find_by_key(work.tx, content=new.content, **asdict(key))
    known = {fact.id: fact for fact in map(existing_fact, rows)}
    return known.pop(fact_id), list(known.values())


async def _propose(work: UnitOfWork, new: NewFact, wrong: ExistingFact) -> StoredFact:
    """Propose to supersede a more trusted fact: from approval on, if that is valid now."""
    window = OPEN if wrong.window.holds(work.now) else wrong.window
    waiting = await propose_fact(work, replace(new, **asdict(window)), wrong.id)
    return StoredFact(waiting.id, None, waiting.why)


async def _corrected(memory: Memory, fact_id: UUID, content: str, lineage: Lineage) -> NewFact:
    """Build the correction of a fact; unless it says the same, it has no source."""
    async with memory.transaction(lineage) as tx:
        before = await _get_current(tx, fact_id, memory.now())
    same = says_the_same(before["content"], content)
    changes: dict[str, Any] = {} if same else dict.fromkeys(_OF_THE_SOURCE)
    changes |= {"content": content, "source_butler": memory.butler, "confidence": 1.0}
    return replace(_as_new(before), **changes)


def _as_new(before: Row) -> NewFact:
    """Return a stored fact as a new one."""
    columns = (one.name for one in INPUT[NewFact].values() if one.is_stored and one.corrected)
    fact = NewFact(**{name: before[name] for name in columns})
    permanence, metadata = Permanence(fact.permanence), without_status(fact.metadata)
    return replace(fact, permanence=permanence, tags=tuple(fact.tags), metadata=metadata)


async def _replace(
    work: UnitOfWork, ref: MemoryRef, new: NewRule | NewEpisode, embedding: Embedding
) -> UUID:
    await refuse_more_trusted(work, ref, "correct")
    forgotten = await forget_in(work.tx, ref, work.now)
    if forgotten is None:
        raise Conflict(f"{ref.type} {ref.id} is not current; correct the current one")
    await work.record(forgotten)
    stored = await store_in(work, new, embedding)
    await link_in(work, Link(MemoryRef(ref.type, stored.id), Relation.SUPERSEDES, ref))
    return stored.id


# A rule or episode with another text, and with what a correction keeps of it.
async def _restated(
    memory: Memory, ref: MemoryRef, content: str, lineage: Lineage
) -> NewRule | NewEpisode:
    async with memory.transaction(lineage) as tx:
        rows = await STORES[ref.type].find(tx, ids=[ref.id], now=memory.now())
    if not rows:
        raise NotFound(f"fact_id: {ref.type} {ref.id} does not exist; search for it")
    [before] = rows
    given = before["metadata"].items()
    metadata = {name: value for name, value in given if name not in inputs.RESERVED}
    if ref.type is MemoryType.RULE:
        tags = tuple(before["tags"])
        return NewRule(content, before["scope"], tags, memory.butler, metadata=metadata)
    kept = ("session_id", "importance", "author", "said_at", "piece")
    about = {name: before[name] for name in kept}
    return NewEpisode(content, before["butler"], metadata=metadata, **about)


async def _superseded_by(tx: Transaction, fact_id: UUID, now: datetime) -> Row:
    """Load the fact that a current one superseded, with its `window_before` that."""
    replaced = (await _get_current(tx, fact_id, now))["supersedes_id"]
    before = await facts.find(tx, ids=[replaced], now=now) if replaced else []
    if not before:
        raise Conflict("this fact replaced no other, so there is nothing to go back to")
    window = await facts.get_window_before(tx, id=replaced, by=str(fact_id))
    return {**before[0], "window_before": window}


def _window_before(before: Row, instead: Window) -> Window:
    """Return the window of a fact before it was superseded, as its event recorded it."""
    if before["window_before"] is None:
        return Window(before["valid_from"], instead.valid_to)
    return Window.heard(before["window_before"])


async def _get_current(tx: Transaction, fact_id: UUID, now: datetime) -> Row:
    rows = await facts.find(tx, ids=[fact_id], now=now)
    if not rows:
        raise NotFound(f"fact_id: fact {fact_id} does not exist; search for the fact to correct")
    if rows[0]["state"] not in ("active", "fading"):
        raise Conflict(
            f"fact_id: fact {fact_id} is {rows[0]['state']}; correct the current fact, "
            "or store a new one"
        )
    return rows[0]
