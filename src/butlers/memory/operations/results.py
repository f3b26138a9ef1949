"""What operations of the memory answer; keys beyond those declared are the columns of the row.

A remote butler's answers are read by the same models: what pages compare, count with or draw is
declared, so that an answer they could not show is none.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, PlainSerializer

from butlers.operation import Output


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must be a time between the years 1 and 9999, in UTC too") from error


Instant = Annotated[
    AwareDatetime,
    AfterValidator(_in_utc),
    PlainSerializer(datetime.isoformat, when_used="json", return_type=str),
]
MemoryKind = Literal["episode", "fact", "rule"]


class StoreResult(Output):
    """A memory that was stored."""

    id: UUID
    waits: str | None = None
    """What it waits for, where it is told to nobody yet."""


class EpisodeStored(StoreResult):
    """An episode that was stored."""

    expires_at: Instant
    """When it is dropped, unless consolidated before (ISO 8601)."""


class Candidate(Output):
    """An entity that may be meant."""

    entity_id: UUID
    canonical_name: str
    score: float


class FactStored(StoreResult):
    """A fact that was stored."""

    superseded_id: UUID | None
    """The fact it replaced, or null."""
    in_doubt: list[dict[str, Any]] | None = None
    """What rested on the fact it replaced."""
    confirmed: bool | None = None
    """Whether it says what a fact said already, and confirms it."""
    valid_from: Instant | None = None
    """Since when it holds, where that is known."""
    valid_to: Instant | None = None
    """When it no longer holds, where that is known."""
    entity_id: UUID | None = None
    """The entity that its subject names, where the caller gave none."""
    entity_candidates: list[Candidate] | None = None
    """Whom it may be about where several bear its subject's name, the likeliest first."""
    conflicts: list[dict[str, Any]] | None = None
    """Facts it may contradict or repeat, where there are any: settle them."""


class RuleStored(StoreResult):
    """A rule that was stored."""


class RememberedMemory(Output):
    """A memory, with the columns of its kind."""

    memory_type: MemoryKind
    id: UUID
    content: str
    content_length: int | None = None
    """How long it is, where it is cut."""
    created_at: Instant
    subject: str | None = None
    predicate: str | None = None
    state: str | None = None
    effective_confidence: float | None = None
    """What is left of its confidence now."""
    origin: str | None = None
    """Who said it: operator, user, agent, inferred, document or tool."""
    trust: int | None = None
    """How far it is trusted: 4 stated, 3 inferred, 2 document, 1 tool, 0 low trust."""
    valid_from: Instant | None = None
    valid_to: Instant | None = None
    in_doubt: list[UUID] | None = None
    """What it rests on that does not hold."""
    outdated_by: list[UUID] | None = None
    """What took the place of what was drawn from this episode."""
    less_trusted: str | None = None
    """Where it comes from, if nobody who is trusted stated it."""
    rrf_score: float | None = None
    semantic_rank: int | None = None
    keyword_rank: int | None = None
    similarity: float | None = None
    rank: float | None = None
    relevance: float | None = None
    signals: dict[str, float] | None = None
    """What each signal added to its place in the ranking."""
    composite_score: float | None = None
    score_parts: dict[str, float] | None = None


class RecalledMemory(RememberedMemory):
    """A memory worth recalling, and why."""

    composite_score: float
    score_parts: dict[str, float]
    """relevance, importance, recency and confidence, before weighting."""


class MarkedRule(Output):
    """A rule after feedback, with its columns."""

    id: UUID
    content: str
    maturity: Literal["candidate", "established", "proven", "anti_pattern"]
    effectiveness_score: float
    applied_count: int
    success_count: int
    harmful_count: int


class Confirmation(Output):
    """Whether a memory was confirmed."""

    confirmed: bool


class Forgetting(Output):
    """Whether a memory was forgotten by this call; others each by memory_type, id and says."""

    forgotten: bool
    sources: list[dict[str, Any]] | None = None
    """The episodes it was drawn from."""
    in_doubt: list[dict[str, Any]] | None = None
    """What rests on it."""


class RestoreResult(Output):
    """Whether a memory was taken back by this call."""

    restored: bool


class Linked(Output):
    """Whether two memories were linked by this call."""

    linked: bool


class Requeued(Output):
    """How many dead letters are tried again."""

    requeued: int


class EpisodeCounts(Output):
    """Episodes by state of consolidation."""

    total: int
    unconsolidated: int
    consolidated: int
    failed: int
    dead_letter: int
    backlog_age_hours: float | None
    """Age of the oldest episode that waits; null when none does."""


class FactCounts(Output):
    """Facts by state."""

    active: int
    fading: int
    superseded: int
    expired: int
    retracted: int


class RuleCounts(Output):
    """Rules by maturity; a forgotten one counts as such alone."""

    candidate: int
    established: int
    proven: int
    anti_pattern: int
    forgotten: int


class MemoryStats(Output):
    """How much is remembered."""

    episodes: EpisodeCounts
    facts: FactCounts
    rules: RuleCounts


class Consolidation(Output):
    """What a consolidation did, or would take when dry_run is true."""

    episodes_processed: int
    facts_created: int
    facts_updated: int
    rules_created: int
    confirmations_made: int
    errors: list[str]
    dry_run: bool


class EpisodeCleanup(Output):
    """What a cleanup deleted, and what is left."""

    expired_deleted: int
    capacity_deleted: int
    remaining: int


class Happened(Output):
    """Something that happened, as the audit stream keeps it."""

    id: UUID
    event_type: str
    actor: str | None
    request_id: str | None
    memory_type: str | None
    memory_id: UUID | None
    payload: dict[str, Any]
    created_at: Instant


class LinkedMemories(Output):
    """A link from one memory to another."""

    source_type: MemoryKind
    source_id: UUID
    target_type: MemoryKind
    target_id: UUID
    relation: str


class DeadLetter(Output):
    """An episode that consolidation gave up on."""

    id: UUID
    content: str
    consolidation_attempts: int
    dead_letter_reason: str | None


class Binned(Output):
    """An episode that a cleanup removed."""

    id: UUID
    content: str
    reason: Literal["expired", "evicted"]
    binned_at: Instant
    until: Instant


class EmbeddingModel(Output):
    """An embedding model as a tenant knows it."""

    tenant: str
    model: str
    state: str
    embedded: int
    of: int
