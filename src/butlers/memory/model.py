"""The words of the memory module: its vocabularies and its values."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.memory.events import Event as Event
from butlers.memory.events import EventSubject as EventSubject
from butlers.memory.events import EventType as EventType
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


class RemovalReason(StrEnum):
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
    DEPENDS_ON = "depends_on"


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


class RuleOutcome(StrEnum):
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


class ConflictKind(StrEnum):
    """What two facts may be to each other."""

    CONFLICT = "conflict"
    SAME = "same"


class Settlement(StrEnum):
    """What somebody said of two facts: which of them holds, or until and since when each does."""

    NEWER = "newer"
    OLDER = "older"
    BOTH = "both"
    SINCE = "since"
    SAME = "same"


class Holds(StrEnum):
    """How many values a predicate has at a time."""

    ONE = "one"
    MANY = "many"


class VersionState(StrEnum):
    """What a model's vectors are to a tenant."""

    CURRENT = "current"
    BUILDING = "building"
    PREVIOUS = "previous"
    ASIDE = "aside"


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A memory by kind and id."""

    type: MemoryType
    id: UUID


@dataclass(frozen=True, slots=True)
class Then:
    """Of which time something is asked: when it held, and when it was believed; None is now."""

    as_of: datetime | None = None
    known_at: datetime | None = None

    def __bool__(self) -> bool:
        return self.as_of is not None or self.known_at is not None

    def at(self, now: datetime) -> datetime:
        """The moment that is asked about."""
        return self.as_of or self.known_at or now


NOW = Then()


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
    depends_on: tuple[MemoryRef, ...] = ()
    valid_from: datetime | None = None
    valid_to: datetime | None = None

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
    depends_on: tuple[MemoryRef, ...] = ()

    @property
    def searchable_text(self) -> str:
        """What is embedded and indexed."""
        return self.content


New = NewEpisode | NewFact | NewRule
