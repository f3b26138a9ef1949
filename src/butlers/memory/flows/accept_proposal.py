"""Accept a proposal: do what it proposes, in the name of the person who accepts it."""

from typing import Any
from uuid import UUID

from butlers.errors import NotFound
from butlers.memory.flows.authority import must_be_trusted
from butlers.memory.flows.fact_windows import confirm_by
from butlers.memory.flows.links import derive_in
from butlers.memory.flows.proposals import decide_in, new_of
from butlers.memory.flows.remember import store_in
from butlers.memory.handle import Memory
from butlers.memory.model import EventType, Lineage, MemoryRef, MemoryType
from butlers.memory.policy.inputs import checked_id
from butlers.memory.store import proposals


async def accept(memory: Memory, proposal_id: str | UUID, lineage: Lineage) -> dict[str, Any]:
    """Store or confirm what was proposed, as if it had been stated; return which memory that is.

    Refuses callers of low trust, and proposals that do not wait. Locks the proposal. Records
    `proposal_accepted`, and the events of what is stored or confirmed.
    """
    must_be_trusted(lineage, "accept what waits for a yes")
    id = checked_id("proposal_id", proposal_id)
    async with memory.transaction(lineage) as tx:
        row = await proposals.lock(tx, id=id)
    new = new_of(row) if row is not None else None
    embeddings = await memory.embed([new.searchable_text] if new else [], lineage)
    async with memory.begin(lineage) as work:
        row = await proposals.lock(work.tx, id=id)
        if row is None:
            raise NotFound(f"proposal_id: there is no open proposal {id}; list the open ones")
        if new is None:
            ref = MemoryRef(MemoryType(row["target_type"]), row["target_id"])
            await confirm_by(work, ref, row["source_episode_ids"])
        else:
            ref = (await store_in(work, new, embeddings[0])).ref
            await derive_in(work, ref, row["source_episode_ids"])
        memory_named = {"about": ref.type, "about_id": str(ref.id)}
        await decide_in(work, id, EventType.PROPOSAL_ACCEPTED, **memory_named)
    return {"accepted": row["kind"], "about": ref.type, "about_id": ref.id}
