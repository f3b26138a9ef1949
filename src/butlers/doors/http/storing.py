"""Storing memories, and putting a fact right: through the flows that the tools use."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field

from butlers.doors.http.asking import Asked, Scope, Tag
from butlers.doors.http.seats import Seated
from butlers.memory.flows import remember
from butlers.memory.flows.correct import correct_fact
from butlers.memory.model import (
    NewEpisode,
    NewFact,
    NewRule,
    Permanence,
    StoredFact,
)
from butlers.memory.policy import inputs
from butlers.memory.policy.attachments import MAX_KEY
from butlers.memory.tools.results import EpisodeStored, FactStored, RuleStored

router = APIRouter(tags=["writing"])
Importance = Annotated[float, Field(ge=0, le=10)]
Content = Annotated[str, Field(min_length=1)]


class _Storable(Asked):
    content: Content
    metadata: dict[str, Any] = {}
    idempotency_key: Annotated[str, Field(min_length=1, max_length=MAX_KEY)] | None = None
    """The same key again stores nothing new."""


class FactToStore(_Storable):
    """What is true; an active fact of the same key is superseded by it."""

    subject: Annotated[str, Field(min_length=1, max_length=inputs.MAX_SUBJECT)]
    predicate: Annotated[str, Field(min_length=1, max_length=inputs.MAX_PREDICATE)]
    importance: Importance = 5.0
    permanence: Permanence = Permanence.STANDARD
    scope: Scope = "global"
    tags: Annotated[tuple[Tag, ...], Field(max_length=inputs.MAX_TAGS)] = ()
    entity_id: UUID | None = None


class RuleToStore(_Storable):
    """How to behave; every rule starts as a candidate."""

    scope: Scope = "global"
    tags: Annotated[tuple[Tag, ...], Field(max_length=inputs.MAX_TAGS)] = ()


class EpisodeToStore(_Storable):
    """What happened."""

    session_id: UUID | None = None
    importance: Importance = 5.0


class Correction(Asked):
    """What a fact should have said; what is not given stays as it was."""

    content: Content
    importance: Importance | None = None
    permanence: Permanence | None = None


@router.post("/facts", status_code=201, response_model=FactStored)
async def store_fact(seat: Seated, asked: FactToStore) -> Any:
    """Store a fact; an active fact with the same key is superseded by it."""
    new = NewFact(**dict(asked), source_butler=seat.butler.name)
    return _stored(await remember.store_fact(seat.memory, new, seat.lineage))


@router.post("/facts/{fact_id}/correct", status_code=201, response_model=FactStored)
async def correct(seat: Seated, fact_id: UUID, asked: Correction) -> Any:
    """Store what a fact should have said, under the same key; it supersedes the fact."""
    corrected = await correct_fact(
        seat.memory,
        fact_id,
        asked.content,
        seat.lineage,
        importance=asked.importance,
        permanence=asked.permanence,
    )
    return _stored(corrected)


@router.post("/rules", status_code=201, response_model=RuleStored)
async def store_rule(seat: Seated, asked: RuleToStore) -> Any:
    """Store a rule."""
    new = NewRule(**dict(asked), source_butler=seat.butler.name)
    stored = await remember.store_rule(seat.memory, new, seat.lineage)
    return {"id": str(stored.id)}


@router.post("/episodes", status_code=201, response_model=EpisodeStored)
async def store_episode(seat: Seated, asked: EpisodeToStore) -> Any:
    """Store what happened; it expires after the configured days."""
    new = NewEpisode(**dict(asked), butler=seat.butler.name)
    stored = await remember.store_episode(seat.memory, new, seat.lineage)
    return {"id": str(stored.id), "expires_at": stored.expires_at.isoformat()}


def _stored(stored: StoredFact) -> dict[str, str | None]:
    replaced = stored.superseded_id
    return {"id": str(stored.id), "superseded_id": str(replaced) if replaced else None}
