"""Accepting a proposal: what it proposes is done, in the name of whoever said yes."""

from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.errors import NotFound
from butlers.memory.flows.authority import must_be_trusted
from butlers.memory.flows.fact_windows import confirm_by
from butlers.memory.flows.links import derive_in
from butlers.memory.flows.proposals import (
    decide_in,
    new_of,
)
from butlers.memory.flows.remember import store_fact_in, store_rule_in
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
    NewFact,
    NewRule,
)
from butlers.memory.policy.inputs import checked_id
from butlers.memory.store import proposals


async def accept(memory: Memory, proposal_id: str | UUID, lineage: Lineage) -> dict[str, Any]:
    """Do what was proposed, as sure as if it had been stated; which memory it concerns."""
    must_be_trusted(lineage, "accept what waits for a yes")
    id = checked_id("proposal_id", proposal_id)
    async with memory.transaction(lineage) as tx:
        row = await proposals.lock(tx, id=id)
    new = new_of(row) if row is not None else None
    embedding = await memory.embed(new.searchable_text, lineage) if new else None
    async with memory.begin(lineage) as work:
        held = await proposals.lock(work.tx, id=id)
        if held is None:
            raise NotFound(f"proposal_id: no proposal {id} waits; list those that do")
        ref = await _accepted(work, held, new, embedding)
        led_to = {"about": ref.type, "about_id": str(ref.id)}
        await decide_in(work, id, EventType.PROPOSAL_ACCEPTED, **led_to)
    return {"accepted": held["kind"], "about": ref.type, "about_id": ref.id}


async def _accepted(
    work: UnitOfWork, row: Row, new: NewFact | NewRule | None, embedding: Embedding | None
) -> MemoryRef:
    if new is None or embedding is None:
        ref = MemoryRef(MemoryType(row["target_type"]), row["target_id"])
        await confirm_by(work, ref, row["source_episode_ids"])
        return ref
    if isinstance(new, NewFact):
        fact = await store_fact_in(work, new, embedding)
        ref = MemoryRef(MemoryType.FACT, fact.id)
    else:
        rule = await store_rule_in(work, new, embedding)
        ref = MemoryRef(MemoryType.RULE, rule.id)
    await derive_in(work, ref, row["source_episode_ids"])
    return ref
