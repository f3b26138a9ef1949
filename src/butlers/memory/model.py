"""The words of the memory module: its vocabularies and its values."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.memory.trust import Lineage as Lineage
from butlers.memory.trust import Origin as Origin
from butlers.memory.trust import Trust as Trust


class MemoryType(StrEnum):
    """The three kinds of memory."""

    EPISODE = "episode"
    FACT = "fact"
    RULE = "rule"


class Permanence(StrEnum):
    """How long something stays true unless it is confirmed again."""

    PERMANENT = "permanent"
    STABLE = "stable"
    STANDARD = "standard"
    VOLATILE = "volatile"
    EPHEMERAL = "ephemeral"


class Validity(StrEnum):
    """Whether a fact holds."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    RETRACTED = "retracted"
    QUARANTINED = "quarantined"


class Maturity(StrEnum):
    """How far a rule has come."""

    CANDIDATE = "candidate"
    ESTABLISHED = "established"
    PROVEN = "proven"
    ANTI_PATTERN = "anti_pattern"


class ConsolidationStatus(StrEnum):
    """Where an episode stands on its way to knowledge."""

    PENDING = "pending"
    CONSOLIDATED = "consolidated"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"


class Removal(StrEnum):
    """Why the cleanup put an episode into the bin."""

    EXPIRED = "expired"
    EVICTED = "evicted"


class Relation(StrEnum):
    """What one memory is to another."""

    DERIVED_FROM = "derived_from"
    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    SUPERSEDES = "supersedes"
    RELATED_TO = "related_to"


class Direction(StrEnum):
    """Which links of a memory are meant."""

    OUTGOING = "outgoing"
    INCOMING = "incoming"
    BOTH = "both"


class EntityType(StrEnum):
    """What an entity is."""

    PERSON = "person"
    ORGANIZATION = "organization"
    PLACE = "place"
    OTHER = "other"


class SearchMode(StrEnum):
    """How to look for memories."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


class Outcome(StrEnum):
    """What came of applying a rule."""

    HELPFUL = "helpful"
    HARMFUL = "harmful"


class ProposalKind(StrEnum):
    """What a proposal would do."""

    NEW_FACT = "new_fact"
    UPDATED_FACT = "updated_fact"
    NEW_RULE = "new_rule"
    CONFIRMATION = "confirmation"


class ProposalStatus(StrEnum):
    """What became of a proposal."""

    WAITING = "waiting"
    ACCEPTED = "accepted"
    DECLINED = "declined"


class VersionState(StrEnum):
    """What a model's vectors are to a tenant."""

    CURRENT = "current"
    BUILDING = "building"
    PREVIOUS = "previous"
    ASIDE = "aside"


class EventSubject(StrEnum):
    """What an event is about."""

    EPISODE = "episode"
    FACT = "fact"
    RULE = "rule"
    ENTITY = "entity"
    LINK = "link"
    PROPOSAL = "proposal"
    PROJECT = "project"


class EventType(StrEnum):
    """Everything that can happen to memory; `docs/events.md` says what each payload holds."""

    EPISODE_CREATED = "episode_created"
    EPISODE_CONSOLIDATED = "episode_consolidated"
    EPISODE_CONSOLIDATION_FAILED = "episode_consolidation_failed"
    EPISODE_DEAD_LETTERED = "episode_dead_lettered"
    EPISODE_REQUEUED = "episode_requeued"
    EPISODE_KEPT = "episode_kept"
    EPISODE_FORGOTTEN = "episode_forgotten"
    EPISODE_EXPIRED = "episode_expired"
    EPISODE_EVICTED = "episode_evicted"
    EPISODE_RESTORED = "episode_restored"
    EPISODE_DELETED = "episode_deleted"
    EPISODE_ACCEPTED = "episode_accepted"
    FACT_CREATED = "fact_created"
    FACT_SUPERSEDED = "fact_superseded"
    FACT_CONFIRMED = "fact_confirmed"
    FACT_RETRACTED = "fact_retracted"
    FACT_RESTORED = "fact_restored"
    FACT_FADING = "fact_fading"
    FACT_RECOVERED = "fact_recovered"
    FACT_EXPIRED = "fact_expired"
    FACT_ACCEPTED = "fact_accepted"
    FACT_UNCONFIRMED = "fact_unconfirmed"
    RULE_CREATED = "rule_created"
    RULE_CONFIRMED = "rule_confirmed"
    RULE_FORGOTTEN = "rule_forgotten"
    RULE_RESTORED = "rule_restored"
    RULE_FADING = "rule_fading"
    RULE_RECOVERED = "rule_recovered"
    RULE_MARKED_HELPFUL = "rule_marked_helpful"
    RULE_MARKED_HARMFUL = "rule_marked_harmful"
    RULE_PROMOTED = "rule_promoted"
    RULE_DEMOTED = "rule_demoted"
    RULE_INVERTED = "rule_inverted"
    RULE_ACCEPTED = "rule_accepted"
    RULE_UNCONFIRMED = "rule_unconfirmed"
    RULE_UNMARKED = "rule_unmarked"
    LINK_CREATED = "link_created"
    LINK_REMOVED = "link_removed"
    ENTITY_CREATED = "entity_created"
    ENTITY_UPDATED = "entity_updated"
    ENTITY_REMOVED = "entity_removed"
    ENTITY_MERGE = "entity_merge"
    ENTITY_PARTED = "entity_parted"
    MEMORY_ERASED = "memory_erased"
    PROPOSAL_MADE = "proposal_made"
    PROPOSAL_ACCEPTED = "proposal_accepted"
    PROPOSAL_DECLINED = "proposal_declined"
    PROJECT_SHARED = "project_shared"
    PROJECT_MOVED = "project_moved"


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A memory by kind and id."""

    type: MemoryType
    id: UUID


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, as the audit stream keeps it; without a subject, to all."""

    type: EventType
    subject: EventSubject | None
    subject_id: UUID | None
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Link:
    """A directed edge between two memories."""

    source: MemoryRef
    relation: Relation
    target: MemoryRef


@dataclass(frozen=True, slots=True)
class NewEpisode:
    """An episode to be stored; `doubt` says why it would wait, if a program says it."""

    content: str
    butler: str
    session_id: UUID | None = None
    importance: float = 5.0
    metadata: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    place: int | None = None
    author: str | None = None
    said_at: datetime | None = None
    origin: Origin | None = None
    doubt: str = ""

    @property
    def searchable_text(self) -> str:
        """What is embedded and indexed."""
        return self.content


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to be stored."""

    subject: str
    predicate: str
    content: str
    importance: float = 5.0
    permanence: Permanence = Permanence.STANDARD
    scope: str = "global"
    tags: tuple[str, ...] = ()
    entity_id: UUID | None = None
    source_butler: str | None = None
    source_episode_id: UUID | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    session_id: UUID | None = None
    place: int | None = None
    author: str | None = None
    said_at: datetime | None = None
    confidence: float = 1.0
    origin: Origin | None = None
    doubt: str = ""

    @property
    def searchable_text(self) -> str:
        """What is embedded and indexed."""
        return f"{self.subject} {self.predicate} {self.content}"


@dataclass(frozen=True, slots=True)
class NewRule:
    """A rule to be stored."""

    content: str
    scope: str = "global"
    tags: tuple[str, ...] = ()
    source_butler: str | None = None
    source_episode_id: UUID | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    origin: Origin | None = None
    doubt: str = ""

    @property
    def searchable_text(self) -> str:
        """What is embedded and indexed."""
        return self.content


New = NewEpisode | NewFact | NewRule
