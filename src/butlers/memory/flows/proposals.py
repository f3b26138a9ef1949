"""What is drawn from episodes and waits for somebody's yes: proposed, told, accepted, declined."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, assert_never
from uuid import UUID

from butlers.db.postgres import Row
from butlers.errors import NotFound
from butlers.kernel.json_values import as_json
from butlers.memory.flows.authority import must_be_trusted
from butlers.memory.flows.feedback import confirm_in
from butlers.memory.flows.links import derive_in, link_in
from butlers.memory.flows.proposing import (
    Proposal,
    confirmation_proposal,
    fact_proposal,
    rule_proposal,
)
from butlers.memory.flows.remember import store_fact_in, store_rule_in
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    Event,
    EventType,
    Lineage,
    Link,
    MemoryRef,
    MemoryType,
    NewFact,
    NewRule,
    Permanence,
    ProposalKind,
    ProposalStatus,
    Relation,
)
from butlers.memory.policy.consolidation_plan import Action, ConfirmMemory, StoreFact, StoreRule
from butlers.memory.policy.inputs import checked_id
from butlers.memory.store import proposals

_DECIDED = {
    EventType.PROPOSAL_ACCEPTED: ProposalStatus.ACCEPTED,
    EventType.PROPOSAL_DECLINED: ProposalStatus.DECLINED,
}


def proposal_of(action: Action, butler: str, target_id: UUID | None) -> Proposal:
    """The proposal to act so; a target is what it would replace or confirm."""
    match action:
        case StoreFact(new=new):
            return fact_proposal(butler, new, action.sources, _key(new), target_id)
        case StoreRule(new=rule):
            return rule_proposal(butler, rule, action.sources, _key(rule))
        case ConfirmMemory(ref=ref):
            once = f"confirm:{ref.id}:{','.join(sorted(map(str, action.cited)))}"
            return confirmation_proposal(butler, ref, action.cited, once)
        case _:
            assert_never(action)


async def find_proposals(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """What waits, oldest first: as it is now beside as it would be."""
    async with memory.transaction(lineage) as tx:
        return [as_json(row) for row in await proposals.find_waiting(tx, limit=limit)]


async def decline(memory: Memory, proposal_id: str | UUID, lineage: Lineage) -> bool:
    """Nothing is done, and it is not proposed again from the same episodes; false if none waits."""
    must_be_trusted(lineage, "decline what waits for a yes")
    id = checked_id("proposal_id", proposal_id)
    async with memory.begin(lineage) as work:
        if await proposals.hold(work.tx, id=id) is None:
            return False
        await decide_in(work, id, EventType.PROPOSAL_DECLINED)
    return True


async def accept(memory: Memory, proposal_id: str | UUID, lineage: Lineage) -> dict[str, Any]:
    """Do what was proposed, as sure as if it had been stated; which memory it concerns."""
    must_be_trusted(lineage, "accept what waits for a yes")
    id = checked_id("proposal_id", proposal_id)
    async with memory.transaction(lineage) as tx:
        row = await proposals.hold(tx, id=id)
    new = _new(row) if row is not None else None
    embedding = await memory.embed(new.searchable_text, lineage) if new else None
    async with memory.begin(lineage) as work:
        held = await proposals.hold(work.tx, id=id)
        if held is None:
            raise NotFound(f"proposal_id: no proposal {id} waits; list those that do")
        ref = await _accepted(work, held, new, embedding)
        led_to = {"about": ref.type, "about_id": str(ref.id)}
        await decide_in(work, id, EventType.PROPOSAL_ACCEPTED, **led_to)
    return {"accepted": held["kind"], "about": ref.type, "about_id": ref.id}


async def confirm_by(work: UnitOfWork, ref: MemoryRef, episode_ids: Sequence[UUID]) -> None:
    """Confirm a memory and keep which episodes did."""
    if not await confirm_in(work, ref, episode_ids):
        raise NotFound(f"{ref.type} {ref.id} is not in use any more; it was left as it is")
    for id in episode_ids:
        said = Link(MemoryRef(MemoryType.EPISODE, id), Relation.SUPPORTS, ref)
        await link_in(work, said)


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


def _new(row: Row) -> NewFact | NewRule | None:
    """What would be stored, if something would; a yes is worth as much as a statement."""
    said = {**row["proposed"], "source_butler": row["butler"]}
    said["tags"] = tuple(said.get("tags", ()))
    key = f"proposal:{row['id']}"
    match ProposalKind(row["kind"]):
        case ProposalKind.NEW_FACT | ProposalKind.UPDATED_FACT:
            entity, permanence = said.pop("entity_id"), Permanence(said.pop("permanence"))
            about = UUID(entity) if entity else None
            for name in {"valid_from", "valid_to"} & said.keys():
                said[name] = datetime.fromisoformat(said[name])
            grounds = said.pop("depends_on", ())
            said["depends_on"] = tuple(
                MemoryRef(MemoryType(kind), UUID(id)) for kind, id in grounds
            )
            return NewFact(**said, entity_id=about, permanence=permanence, idempotency_key=key)
        case ProposalKind.NEW_RULE:
            return replace(NewRule(**said), idempotency_key=key)
        case ProposalKind.CONFIRMATION:
            return None


async def decide_in(work: UnitOfWork, id: UUID, how: EventType, **led_to: str) -> None:
    """A proposal waits no more, for what the event says."""
    now, status = work.now, _DECIDED[how]
    await proposals.decide(work.tx, id=id, status=status, now=now, decided_by=work.lineage.actor)
    payload = {"from": ProposalStatus.WAITING, "to": status, **led_to}
    await work.record(Event(how, id, payload), now)


def _key(new: NewFact | NewRule) -> str:
    assert new.idempotency_key is not None, "what a consolidation stores has a key"
    return new.idempotency_key
