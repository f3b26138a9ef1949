"""Putting a fact right: a new one takes its place, and the old one stays readable."""

from dataclasses import fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict, NotFound
from butlers.kernel.text import says_the_same
from butlers.memory.flows.fact_windows import columns, existing_fact, inherit_sources
from butlers.memory.flows.proposals import let_fact_wait
from butlers.memory.flows.remember import insert_fact
from butlers.memory.flows.results import StoredFact, with_doubts
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import Lineage, NewFact, Permanence, Provenance
from butlers.memory.policy import inputs, trust
from butlers.memory.policy.attachments import checked_new, masked_between
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

_IN_USE = ("active", "fading")
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
    """Store what a fact should have said under the same key; what is not given stays as it was."""
    wanted = inputs.checked_id("fact_id", fact_id)
    new = await _corrected(memory, wanted, content, lineage)
    if importance is not None:
        new = replace(new, importance=importance)
    if permanence is not None:
        new = replace(new, permanence=inputs.checked_word("permanence", permanence, Permanence))
    given, new = new, checked_new(new, memory.settings)
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.begin(lineage) as work:
        stored = await with_doubts(work, await _put_right(work, wanted, new, embedding))
    return replace(stored, masked=masked_between(given, new))


async def undo_correction(memory: Memory, fact_id: str | UUID, lineage: Lineage) -> StoredFact:
    """Let a fact say again what the one it replaced said; both stay readable."""
    wanted = inputs.checked_id("fact_id", fact_id)
    async with memory.transaction(lineage) as tx:
        new = _said_again(await _replaced_by(tx, wanted, memory.now()))
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.begin(lineage) as work:
        return await _take_back(work, wanted, new, embedding)


async def _put_right(
    work: UnitOfWork, fact_id: UUID, new: NewFact, embedding: Embedding
) -> StoredFact:
    """Store a correction for the time of what it corrects, which then never held."""
    wrong, others = await _lock_fact(work, fact_id, new)
    provenance = trust.provenance(new, work.lineage)
    if provenance.quarantined:
        place = Placement(wrong.window)
    else:
        place = place_exactly(wrong.window, others, work.now, wrong)
        if wrong.trust > provenance.trust:
            return await _wait(work, new, wrong)
    stored = await insert_fact(work, new, embedding, provenance, place)
    await facts.inherit(work.tx, id=stored.id, before_id=fact_id)
    if wrong.says_same:
        await inherit_sources(work, stored.id, fact_id)
    return stored


async def _take_back(
    work: UnitOfWork, fact_id: UUID, new: NewFact, embedding: Embedding
) -> StoredFact:
    """Store what was replaced once more: for its time, from its sources, as sure as it was."""
    now = work.now
    wrong, others = await _lock_fact(work, fact_id, new)
    before = await _replaced_by(work.tx, fact_id, now)
    free = [one for one in others if one.id != before["id"]]
    window = room(_window_before(before, wrong.window), free, now) or wrong.window
    place = place_exactly(window, others, now, wrong)
    if wrong.trust > work.lineage.trust:
        return await _wait(work, new, wrong)
    provenance = Provenance(**{one.name: before[one.name] for one in fields(Provenance)})
    confirmed_at = before["last_confirmed_at"]
    stored = await insert_fact(work, new, embedding, provenance, place, confirmed_at)
    await facts.inherit(work.tx, id=stored.id, before_id=fact_id)
    await inherit_sources(work, stored.id, before["id"])
    return stored


async def _lock_fact(
    work: UnitOfWork, fact_id: UUID, new: NewFact
) -> tuple[ExistingFact, list[ExistingFact]]:
    """The fact that is put right, under its key, and what else is told of that."""
    if new.entity_id is not None:
        await entities.lock_unmerged(work.tx, new.entity_id)
    await facts.hold_keys(work.tx, FactKey.of(new))
    # Whoever was quicker meanwhile is not overwritten unseen.
    _in_use(fact_id, await facts.find(work.tx, ids=[fact_id], now=work.now))
    told = await facts.find_by_key(work.tx, FactKey.of(new), new.content)
    found = {one.id: one for one in map(existing_fact, told)}
    return found.pop(fact_id), list(found.values())


async def _wait(work: UnitOfWork, new: NewFact, wrong: ExistingFact) -> StoredFact:
    """What may not replace a more trusted fact waits, to hold from a yes on if that one holds."""
    window = OPEN if wrong.window.holds(work.now) else wrong.window
    new = replace(new, **columns(window))
    waiting = await let_fact_wait(work, new, wrong.id)
    return StoredFact(waiting.id, None, waiting.why)


async def _corrected(memory: Memory, fact_id: UUID, content: str, lineage: Lineage) -> NewFact:
    """What stands in the place of a fact; unless it says the same, its source said otherwise."""
    async with memory.transaction(lineage) as tx:
        before = _in_use(fact_id, await facts.find(tx, ids=[fact_id], now=memory.now()))
    same = says_the_same(before["content"], content)
    other: dict[str, Any] = {} if same else dict.fromkeys(_OF_THE_SOURCE)
    other |= {"content": content, "source_butler": memory.butler, "confidence": 1.0}
    return replace(_said_again(before), **other)


def _said_again(before: Row) -> NewFact:
    """A fact as it was told, to be told again."""
    columns = (one for one in INPUT[NewFact].values() if one.is_stored and one.corrected)
    fact = NewFact(**{one.name: before[one.name] for one in columns})
    permanence, metadata = Permanence(fact.permanence), without_status(fact.metadata)
    return replace(fact, permanence=permanence, tags=tuple(fact.tags), metadata=metadata)


async def _replaced_by(tx: Transaction, fact_id: UUID, now: datetime) -> Row:
    """The fact that another replaced."""
    found = await facts.find(tx, ids=[fact_id], now=now)
    if not found:
        raise NotFound(f"fact_id: fact {fact_id} does not exist; search for the fact")
    _in_use(fact_id, found)
    replaced = found[0]["supersedes_id"]
    before = await facts.find(tx, ids=[replaced], now=now) if replaced else []
    if not before:
        raise Conflict("this fact replaced no other, so there is nothing to go back to")
    told = await facts.get_window_before(tx, id=replaced, by=str(fact_id))
    return {**before[0], "window_before": told}


def _window_before(before: Row, instead: Window) -> Window:
    """When a fact held before it gave way, as the audit stream has it."""
    if before["window_before"] is None:
        return Window(before["valid_from"], instead.valid_to)
    return Window.heard(before["window_before"])


def _in_use(fact_id: UUID, found: list[Row]) -> Row:
    if not found:
        raise NotFound(f"fact_id: fact {fact_id} does not exist; search for the fact to correct")
    if found[0]["state"] not in _IN_USE:
        raise Conflict(
            f"fact_id: fact {fact_id} is {found[0]['state']}; correct the fact that holds now, "
            "or store a new one"
        )
    return found[0]
