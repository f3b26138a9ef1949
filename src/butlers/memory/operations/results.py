"""The results of operations; undeclared keys are columns of the row.

Pages read the answers of remote butlers by these models: each key that a page needs is declared.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from operator import methodcaller
from typing import Annotated, Any, Literal, get_type_hints
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, Field, PlainSerializer, create_model

from butlers.operation import Output

# A time between the years 1 and 9999 in UTC too.
Instant = Annotated[
    AwareDatetime,
    Field(ge=datetime.min.replace(tzinfo=UTC), le=datetime.max.replace(tzinfo=UTC)),
    AfterValidator(methodcaller("astimezone", UTC)),
    PlainSerializer(datetime.isoformat, when_used="json", return_type=str),
]
MemoryKind = Literal["episode", "fact", "rule"]


def single(field: str, meaning: str, kind: type = bool) -> type[Output]:
    """Make the model of a result that is one value, under the name of its field."""
    return _made(field.title().replace("_", ""), meaning, {field: kind})


def report(record: type) -> type[Output]:
    """Make the model of a result from the dataclass that a flow returns."""
    instants: dict[Any, Any] = {datetime: Instant, datetime | None: Instant | None}
    fields = {name: instants.get(kind, kind) for name, kind in get_type_hints(record).items()}
    return _made(record.__name__, record.__doc__ or "", fields)


def _made(name: str, meaning: str, fields: Mapping[str, Any]) -> type[Output]:
    # There is no source file to read docstrings from.
    unwritten = {"use_attribute_docstrings": False}
    required: Any = {field: (kind, ...) for field, kind in fields.items()}
    return create_model(
        name, __base__=Output, __doc__=meaning, __cls_kwargs__=unwritten, **required
    )


class StoreResult(Output):
    """A memory that was stored."""

    id: UUID
    waits: str | None = None
    """What it waits for, if it is not returned to anybody yet."""


class EpisodeStored(StoreResult):
    """An episode that was stored."""

    expires_at: Instant
    """When it expires; later if it was not consolidated by then (ISO 8601)."""


class Candidate(Output):
    """An entity that a name may mean."""

    entity_id: UUID
    canonical_name: str
    score: float


class FactStored(StoreResult):
    """A fact that was stored."""

    superseded_id: UUID | None
    """The fact it replaced, or null."""
    in_doubt: list[dict[str, Any]] | None = None
    """Memories that depend on the fact it replaced."""
    confirmed: bool | None = None
    """Whether it repeats a current fact, and confirms it."""
    valid_from: Instant | None = None
    """When it begins to hold, if known."""
    valid_to: Instant | None = None
    """When it no longer holds, if known."""
    entity_id: UUID | None = None
    """The entity that its subject names, if you gave none."""
    entity_candidates: list[Candidate] | None = None
    """The entities with its subject's name, if several have it, the likeliest first."""
    conflicts: list[dict[str, Any]] | None = None
    """Facts it may contradict or repeat: settle the conflicts."""


class RememberedMemory(Output):
    """A memory, with the columns of its kind."""

    memory_type: MemoryKind
    id: UUID
    content: str
    content_length: int | None = None
    """The length of the whole content, if it is cut."""
    created_at: Instant
    subject: str | None = None
    predicate: str | None = None
    state: str | None = None
    effective_confidence: float | None = None
    """Its confidence now, after decay."""
    origin: str | None = None
    """Who said it: operator, user, agent, inferred, document or tool."""
    trust: int | None = None
    """4 stated, 3 inferred, 2 document, 1 tool, 0 low trust."""
    valid_from: Instant | None = None
    valid_to: Instant | None = None
    in_doubt: list[UUID] | None = None
    """What it depends on that is no longer current."""
    outdated_by: list[UUID] | None = None
    """The facts that superseded what was drawn from this episode, or the later piece."""
    source: str | None = None
    """Where it comes from, if no person typed, accepted or confirmed it, e.g. via codex."""
    less_trusted: str | None = None
    """The same, if nobody trusted stated it."""
    rrf_score: float | None = None
    semantic_rank: int | None = None
    keyword_rank: int | None = None
    similarity: float | None = None
    rank: float | None = None
    relevance: float | None = None
    signals: dict[str, float] | None = None
    """What each signal added to its rank."""
    composite_score: float | None = None
    score_parts: dict[str, float] | None = None


class RecalledMemory(RememberedMemory):
    """A recalled memory with its score."""

    composite_score: float
    score_parts: dict[str, float]
    """relevance, importance, recency and confidence, before weighting."""
    unsure: bool = False
    """Whether it is merely the nearest where no memory answers."""


class MarkedRule(Output):
    """A rule after feedback, with its columns."""

    id: UUID
    content: str
    maturity: Literal["candidate", "established", "proven", "anti_pattern"]
    effectiveness_score: float
    applied_count: int
    success_count: int
    harmful_count: int


class Forgetting(Output):
    """Whether this call forgot the memory; other memories by memory_type, id and says."""

    forgotten: bool
    sources: list[dict[str, Any]] | None = None
    """The episodes it was drawn from."""
    in_doubt: list[dict[str, Any]] | None = None
    """Memories that depend on it."""


class EpisodeCounts(Output):
    """Episodes by their consolidation status."""

    total: int
    unconsolidated: int
    consolidated: int
    failed: int
    dead_letter: int
    backlog_age_hours: float | None
    """The age of the oldest episode that waits; null if none waits."""


class FactCounts(Output):
    """Facts by state."""

    active: int
    fading: int
    superseded: int
    expired: int
    retracted: int


class RuleCounts(Output):
    """Rules by maturity; a forgotten rule counts only as forgotten."""

    candidate: int
    established: int
    proven: int
    anti_pattern: int
    forgotten: int


class MemoryStats(Output):
    """The number of memories by type and state."""

    episodes: EpisodeCounts
    facts: FactCounts
    rules: RuleCounts
    inbox: dict[str, int] = {}
    """What waits for a person, by kind."""


class Happened(Output):
    """An event."""

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


class ReviewedMemory(Output):
    """A memory that waits for somebody's review."""

    memory_type: MemoryKind
    id: UUID
    subject: str | None
    predicate: str | None
    content: str
    created_at: Instant


class DeadLetter(Output):
    """An episode that could not be consolidated."""

    id: UUID
    content: str
    consolidation_attempts: int
    dead_letter_reason: str | None


class Binned(Output):
    """An episode in the bin."""

    id: UUID
    content: str
    reason: Literal["expired", "evicted"]
    binned_at: Instant
    until: Instant


class EmbeddingModel(Output):
    """An embedding model of a tenant."""

    tenant: str
    model: str
    state: str
    embedded: int
    of: int
