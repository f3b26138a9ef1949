"""Putting a fact right: a new one takes its place, and the old one stays readable."""

from dataclasses import replace
from uuid import UUID

from butlers.db.postgres import Row
from butlers.errors import Conflict, NotFound
from butlers.memory.flows import remember
from butlers.memory.flows.stored import StoredFact
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewFact, Permanence
from butlers.memory.policy import inputs
from butlers.memory.policy.attachments import checked_fact, masked_between
from butlers.memory.store import facts

_IN_USE = ("active", "fading")


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
    given, new = new, checked_fact(new, memory.settings)
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.transaction(lineage) as tx:
        # Whoever was quicker meanwhile is not overwritten unseen.
        _in_use(wanted, await facts.find(tx, ids=[wanted], now=memory.now()))
        stored = await remember.store_fact_in(memory, tx, new, embedding, lineage)
    return replace(stored, masked=masked_between(given, new))


async def undo_correction(memory: Memory, fact_id: str | UUID, lineage: Lineage) -> StoredFact:
    """Let a fact say again what the one it replaced said; both stay readable."""
    wanted = inputs.checked_id("fact_id", fact_id)
    async with memory.transaction(lineage) as tx:
        found = await facts.find(tx, ids=[wanted], now=memory.now())
        replaced = found and found[0]["supersedes_id"]
        before = await facts.find(tx, ids=[replaced], now=memory.now()) if replaced else []
    if not found:
        raise NotFound(f"fact_id: fact {wanted} does not exist; search for the fact")
    if not before:
        raise Conflict("this fact replaced no other, so there is nothing to go back to")
    return await correct_fact(
        memory,
        wanted,
        before[0]["content"],
        lineage,
        importance=before[0]["importance"],
        permanence=before[0]["permanence"],
    )


async def _corrected(memory: Memory, fact_id: UUID, content: str, lineage: Lineage) -> NewFact:
    async with memory.transaction(lineage) as tx:
        before = _in_use(fact_id, await facts.find(tx, ids=[fact_id], now=memory.now()))
    return NewFact(
        subject=before["subject"],
        predicate=before["predicate"],
        content=content,
        importance=before["importance"],
        permanence=Permanence(before["permanence"]),
        scope=before["scope"],
        tags=tuple(before["tags"]),
        entity_id=before["entity_id"],
        source_butler=memory.butler,
    )


def _in_use(fact_id: UUID, found: list[Row]) -> Row:
    if not found:
        raise NotFound(f"fact_id: fact {fact_id} does not exist; search for the fact to correct")
    if found[0]["state"] not in _IN_USE:
        raise Conflict(
            f"fact_id: fact {fact_id} is {found[0]['state']}; correct the fact that holds now, "
            "or store a new one"
        )
    return found[0]
