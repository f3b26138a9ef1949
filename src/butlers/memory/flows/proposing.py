"""What is not done without somebody's yes: how it comes to wait."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from butlers.memory.handle import UnitOfWork
from butlers.memory.model import (
    Event,
    EventType,
    MemoryRef,
    MemoryType,
    NewFact,
    NewRule,
    ProposalKind,
    ProposalStatus,
)
from butlers.memory.policy.trust import LESS_TRUSTED
from butlers.memory.store import proposals

DECLINED = "it was proposed before and declined"

_FACT = ("subject", "predicate", "content", "importance", "permanence", "scope", "tags")
_RULE = ("content", "scope", "tags")


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
    proposed = _proposed_fields(new, _FACT) | {"entity_id": new.entity_id and str(new.entity_id)}
    proposed |= _window(new)
    about = MemoryType.FACT if changed else None
    return Proposal(butler, kind, proposed, tuple(sources), key, about, target_id)


def rule_proposal(butler: str, new: NewRule, sources: Sequence[UUID], key: str) -> Proposal:
    """The proposal to store a rule."""
    return Proposal(
        butler, ProposalKind.NEW_RULE, _proposed_fields(new, _RULE), tuple(sources), key
    )


def confirmation_proposal(
    butler: str, ref: MemoryRef, sources: Sequence[UUID], key: str
) -> Proposal:
    """The proposal to confirm a memory."""
    kind = ProposalKind.CONFIRMATION
    return Proposal(butler, kind, {}, tuple(sources), key, ref.type, ref.id)


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
    key = f"stored:{_digest(*said, *_window(new).values())}"
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


def _proposed_fields(new: NewFact | NewRule, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(new, name) for name in names}


def _window(new: NewFact) -> dict[str, Any]:
    """When it would hold, and what it would rest on, where that is known."""
    told = {"valid_from": new.valid_from, "valid_to": new.valid_to}
    grounds = [[ground.type, str(ground.id)] for ground in new.depends_on]
    window = {name: at.isoformat() for name, at in told.items() if at}
    return window | ({"depends_on": grounds} if grounds else {})


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
