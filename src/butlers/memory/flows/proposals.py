"""Proposals: changes that wait for a person's approval; `accept_proposal` carries them out."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
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
from butlers.memory.policy.consolidation_plan import Action, ConfirmMemory
from butlers.memory.policy.inputs import checked_id
from butlers.memory.policy.trust import LESS_TRUSTED
from butlers.memory.records import INPUT
from butlers.memory.store import proposals

DECLINED = "it was proposed before and declined"
_EDITED = "a file of the project's memory was edited so"

_FACT, _RULE = TypeAdapter[Any](NewFact), TypeAdapter[Any](NewRule)
_EMPTY: tuple[Any, ...] = (None, (), [], {})


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed change; the target is what it would replace or confirm."""

    butler: str
    kind: ProposalKind
    proposed: dict[str, Any]
    source_episode_ids: tuple[UUID, ...]
    idempotency_key: str
    target_type: MemoryType | None = None
    target_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class PendingProposal:
    """A proposal as its author gets it."""

    id: UUID
    why: str


def _fact_proposal(
    butler: str, new: NewFact, sources: Sequence[UUID], key: str, target_id: UUID | None
) -> Proposal:
    values = (proposed_values(new), tuple(sources), key)
    if target_id is None:
        return Proposal(butler, ProposalKind.NEW_FACT, *values)
    return Proposal(butler, ProposalKind.UPDATED_FACT, *values, MemoryType.FACT, target_id)


def _confirmation_proposal(
    butler: str, ref: MemoryRef, sources: Sequence[UUID], key: str
) -> Proposal:
    kind = ProposalKind.CONFIRMATION
    return Proposal(butler, kind, {}, tuple(sources), key, ref.type, ref.id)


def proposal_of(action: Action, butler: str, target_id: UUID | None) -> Proposal:
    """Return an action of a consolidation as a proposal."""
    if isinstance(action, ConfirmMemory):
        once = f"confirm:{action.ref.id}:{','.join(sorted(map(str, action.cited)))}"
        return _confirmation_proposal(butler, action.ref, action.cited, once)
    key = action.new.idempotency_key
    assert key is not None, "what a consolidation stores has a key"
    return _new_proposal(butler, action.new, action.sources, key, target_id)


def _new_proposal(
    butler: str, new: NewFact | NewRule, sources: Sequence[UUID], key: str, target_id: UUID | None
) -> Proposal:
    if isinstance(new, NewFact):
        return _fact_proposal(butler, new, sources, key, target_id)
    return Proposal(butler, ProposalKind.NEW_RULE, proposed_values(new), tuple(sources), key)


async def propose_in(work: UnitOfWork, proposal: Proposal, reason: str) -> bool:
    """Store a proposal and record `proposal_made`; false when it was made before."""
    id, now = work.memory.new_id(), work.now
    new = {"id": id, "reason": reason, "now": now, "proposed_by": work.lineage.actor}
    made = await proposals.insert(work.tx, **new, **asdict(proposal))
    if made:
        payload = {
            "to": ProposalStatus.WAITING,
            "kind": proposal.kind,
            "sources": list(map(str, proposal.source_episode_ids)),
            "target_id": proposal.target_id and str(proposal.target_id),
            "reason": reason,
        }
        await work.record(Event(EventType.PROPOSAL_MADE, id, payload), now)
    return made == 1


async def propose_fact(work: UnitOfWork, new: NewFact, holder_id: UUID) -> PendingProposal:
    """Propose a fact that may not supersede a more trusted one; once, however often stored."""
    key = (new.scope, str(new.entity_id), new.subject, new.predicate, new.content)
    values = proposed_values(new)
    more = (values.get(name) for name in ("valid_from", "valid_to", "depends_on"))
    once = f"stored:{_digest(*key, *filter(None, more))}"
    sources = [new.source_episode_id] if new.source_episode_id else []
    return await _propose(work, _fact_proposal(work.memory.butler, new, sources, once, holder_id))


async def propose_stated(
    work: UnitOfWork, new: NewFact | NewRule, episode_id: UUID, reason: str
) -> bool:
    """Propose what a user may have stated in a session; once, in however many sessions it is."""
    once = f"stated:{_digest(new.scope, new.content)}"
    proposal = _new_proposal(work.memory.butler, new, [episode_id], once, None)
    return await propose_in(work, proposal, reason)


async def propose_edit(
    memory: Memory, new: NewFact | NewRule, target_id: UUID | None, lineage: Lineage
) -> bool:
    """Propose what a file says of a memory that may not be changed; once."""
    once = f"edited:{_digest(new.scope, str(target_id), new.content)}"
    async with memory.begin(lineage) as work:
        proposal = _new_proposal(memory.butler, new, (), once, target_id)
        return await propose_in(work, proposal, _EDITED)


async def propose_confirmation(work: UnitOfWork, ref: MemoryRef) -> PendingProposal:
    """Propose a confirmation by a less trusted caller; once, however often it is made."""
    once = f"confirmed:{_digest(ref.type, str(ref.id), work.lineage.actor)}"
    return await _propose(work, _confirmation_proposal(work.memory.butler, ref, (), once))


async def _propose(work: UnitOfWork, proposal: Proposal) -> PendingProposal:
    await propose_in(work, proposal, LESS_TRUSTED)
    key = proposal.idempotency_key
    row = await proposals.get_by_idempotency_key(work.tx, idempotency_key=key)
    declined = row["status"] == ProposalStatus.DECLINED
    return PendingProposal(row["id"], DECLINED if declined else f"a person's yes: {LESS_TRUSTED}")


async def find_proposals(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """List the waiting proposals, oldest first, with what the memory says now."""
    async with memory.transaction(lineage) as tx:
        return [as_json(row) for row in await proposals.find_waiting(tx, limit=limit)]


async def decline(memory: Memory, proposal_id: str | UUID, lineage: Lineage) -> bool:
    """Decline a proposal, which is not made again from the same episodes; false if none waits.

    Refuses callers of low trust. Locks the proposal. Records `proposal_declined`.
    """
    must_be_trusted(lineage, "decline what waits for a yes")
    id = checked_id("proposal_id", proposal_id)
    async with memory.begin(lineage) as work:
        if await proposals.lock(work.tx, id=id) is None:
            return False
        await decide_in(work, id, EventType.PROPOSAL_DECLINED)
    return True


async def decide_in(work: UnitOfWork, id: UUID, how: EventType, **led_to: str) -> None:
    """Accept or decline a proposal, as the event says, and record that."""
    now, by = work.now, work.lineage.actor
    status = ProposalStatus(how.removeprefix("proposal_"))
    await proposals.decide(work.tx, id=id, status=status, now=now, decided_by=by)
    await work.record(Event(how, id, {"from": ProposalStatus.WAITING, "to": status, **led_to}), now)


def proposed_values(new: NewFact | NewRule) -> dict[str, Any]:
    """Return what a proposal stores of a memory, as JSON, without empty values."""
    columns = (column.name for column in INPUT[type(new)].values() if column.proposed)
    values = {name: getattr(new, name) for name in columns}
    values["depends_on"] = [(ground.type, ground.id) for ground in new.depends_on]
    stored = {name: json_value(value) for name, value in values.items() if value not in _EMPTY}
    return stored | ({"metadata": new.metadata} if new.metadata else {})


def new_of(row: Row) -> NewFact | NewRule | None:
    """Return what accepting a proposal stores; None for a confirmation."""
    if row["kind"] == ProposalKind.CONFIRMATION:
        return None
    values = {"source_butler": row["butler"], **row["proposed"]}
    grounds = [{"type": kind, "id": id} for kind, id in values.get("depends_on", ())]
    values |= {"depends_on": grounds, "idempotency_key": f"proposal:{row['id']}"}
    adapter = _RULE if row["kind"] == ProposalKind.NEW_RULE else _FACT
    new: NewFact | NewRule = adapter.validate_python(values)
    return new


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
