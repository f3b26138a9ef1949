"""Proposals: changes that wait for a person's approval; `accept_proposal` does what they say."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, assert_never
from uuid import UUID

from pydantic import TypeAdapter

from butlers.db.postgres import Row
from butlers.kernel.json_values import as_json, json_value
from butlers.memory.flows.authority import must_be_trusted
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import (
    Event,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
    NewFact,
    NewRule,
    ProposalKind,
    ProposalStatus,
)
from butlers.memory.policy.consolidation_plan import Action, ConfirmMemory, StoreFact, StoreRule
from butlers.memory.policy.inputs import checked_id
from butlers.memory.policy.trust import LESS_TRUSTED
from butlers.memory.records import INPUT
from butlers.memory.store import proposals

DECLINED = "it was proposed before and declined"

_FACT, _RULE = TypeAdapter[Any](NewFact), TypeAdapter[Any](NewRule)
_NOT_SAID: tuple[Any, ...] = (None, (), [], {})
_DECIDED = {
    EventType.PROPOSAL_ACCEPTED: ProposalStatus.ACCEPTED,
    EventType.PROPOSAL_DECLINED: ProposalStatus.DECLINED,
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would be done."""

    butler: str
    kind: ProposalKind
    proposed: dict[str, Any]
    source_episode_ids: tuple[UUID, ...]
    idempotency_key: str
    target_type: MemoryType | None = None
    target_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class PendingProposal:
    """A proposal as whoever made it is told of it."""

    id: UUID
    why: str


def fact_proposal(
    butler: str, new: NewFact, sources: Sequence[UUID], key: str, target_id: UUID | None
) -> Proposal:
    """The proposal to store a fact, in the place of another where there is a target."""
    changed = target_id is not None
    kind = ProposalKind.UPDATED_FACT if changed else ProposalKind.NEW_FACT
    about = MemoryType.FACT if changed else None
    return Proposal(butler, kind, proposed_values(new), tuple(sources), key, about, target_id)


def confirmation_proposal(
    butler: str, ref: MemoryRef, sources: Sequence[UUID], key: str
) -> Proposal:
    """The proposal to confirm a memory."""
    kind = ProposalKind.CONFIRMATION
    return Proposal(butler, kind, {}, tuple(sources), key, ref.type, ref.id)


def proposal_of(action: Action, butler: str, target_id: UUID | None) -> Proposal:
    """The proposal to act so; a target is what it would replace or confirm."""
    match action:
        case StoreFact(new=new):
            return fact_proposal(butler, new, action.sources, _key(new), target_id)
        case StoreRule(new=rule):
            proposed = proposed_values(rule)
            return Proposal(
                butler, ProposalKind.NEW_RULE, proposed, tuple(action.sources), _key(rule)
            )
        case ConfirmMemory(ref=ref):
            once = f"confirm:{ref.id}:{','.join(sorted(map(str, action.cited)))}"
            return confirmation_proposal(butler, ref, action.cited, once)
        case _:
            assert_never(action)


async def propose_in(work: UnitOfWork, asked: Proposal, reason: str) -> bool:
    """Let it wait; false when it was proposed before, whatever became of it."""
    id, now = work.new_id(), work.now
    new = {"id": id, "reason": reason, "now": now}
    made = await proposals.insert(work.tx, proposed_by=work.lineage.actor, **new, **asdict(asked))
    if made:
        sources = [str(source) for source in asked.source_episode_ids]
        about = {"target_id": asked.target_id and str(asked.target_id), "reason": reason}
        payload = {"to": ProposalStatus.WAITING, "kind": asked.kind, "sources": sources, **about}
        event = Event(EventType.PROPOSAL_MADE, id, payload)
        await work.record(event, now)
    return made == 1


async def let_fact_wait(work: UnitOfWork, new: NewFact, holder_id: UUID) -> PendingProposal:
    """A fact that may not take the place of a more trusted one waits, once however often told."""
    said = (new.scope, str(new.entity_id), new.subject, new.predicate, new.content)
    window = (proposed_values(new).get(name) for name in ("valid_from", "valid_to", "depends_on"))
    key = f"stored:{_digest(*said, *filter(None, window))}"
    sources = [new.source_episode_id] if new.source_episode_id else []
    asked = fact_proposal(work.memory.butler, new, sources, key, holder_id)
    return await _let_wait(work, asked)


async def let_confirmation_wait(work: UnitOfWork, ref: MemoryRef) -> PendingProposal:
    """A confirmation by somebody less trusted waits, once however often told."""
    key = f"confirmed:{_digest(ref.type, str(ref.id), work.lineage.actor)}"
    asked = confirmation_proposal(work.memory.butler, ref, (), key)
    return await _let_wait(work, asked)


async def _let_wait(work: UnitOfWork, asked: Proposal) -> PendingProposal:
    await propose_in(work, asked, LESS_TRUSTED)
    found = await proposals.get_by_idempotency_key(work.tx, idempotency_key=asked.idempotency_key)
    declined = found["status"] == ProposalStatus.DECLINED
    return PendingProposal(found["id"], DECLINED if declined else f"a person's yes: {LESS_TRUSTED}")


async def find_proposals(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """What waits, oldest first: as it is now beside as it would be."""
    async with memory.transaction(lineage) as tx:
        return [as_json(row) for row in await proposals.find_waiting(tx, limit=limit)]


async def decline(memory: Memory, proposal_id: str | UUID, lineage: Lineage) -> bool:
    """Nothing is done, and it is not proposed again from the same episodes; false if none waits."""
    must_be_trusted(lineage, "decline what waits for a yes")
    id = checked_id("proposal_id", proposal_id)
    async with memory.begin(lineage) as work:
        if await proposals.lock(work.tx, id=id) is None:
            return False
        await decide_in(work, id, EventType.PROPOSAL_DECLINED)
    return True


async def decide_in(work: UnitOfWork, id: UUID, how: EventType, **led_to: str) -> None:
    """A proposal waits no more, for what the event says."""
    now, status = work.now, _DECIDED[how]
    await proposals.decide(work.tx, id=id, status=status, now=now, decided_by=work.lineage.actor)
    payload = {"from": ProposalStatus.WAITING, "to": status, **led_to}
    await work.record(Event(how, id, payload), now)


def proposed_values(new: NewFact | NewRule) -> dict[str, Any]:
    """What a proposal keeps of a memory, as JSON; nothing of what is not said."""
    columns = (one for one in INPUT[type(new)].values() if one.proposed)
    kept = {one.name: getattr(new, one.name) for one in columns}
    kept["depends_on"] = [(ground.type, ground.id) for ground in new.depends_on]
    said = {name: json_value(value) for name, value in kept.items() if value not in _NOT_SAID}
    return said | ({"metadata": new.metadata} if new.metadata else {})


def new_of(row: Row) -> NewFact | NewRule | None:
    """What accepting a proposal stores; None for a confirmation."""
    if row["kind"] == ProposalKind.CONFIRMATION:
        return None
    said = {"source_butler": row["butler"], **row["proposed"]}
    grounds = [{"type": kind, "id": id} for kind, id in said.get("depends_on", ())]
    said |= {"depends_on": grounds, "idempotency_key": f"proposal:{row['id']}"}
    adapter = _RULE if row["kind"] == ProposalKind.NEW_RULE else _FACT
    new: NewFact | NewRule = adapter.validate_python(said)
    return new


def _key(new: NewFact | NewRule) -> str:
    assert new.idempotency_key is not None, "what a consolidation stores has a key"
    return new.idempotency_key


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
