"""The words of the memory module: its vocabularies and its values."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from butlers.memory.events import Event as Event
from butlers.memory.events import EventSubject as EventSubject
from butlers.memory.events import EventType as EventType
from butlers.memory.records import MemoryRef as MemoryRef
from butlers.memory.records import MemoryType as MemoryType
from butlers.memory.records import New as New
from butlers.memory.records import NewEpisode as NewEpisode
from butlers.memory.records import NewFact as NewFact
from butlers.memory.records import NewRule as NewRule
from butlers.memory.records import Permanence as Permanence
from butlers.memory.records import Provenance as Provenance
from butlers.memory.trust import Lineage as Lineage
from butlers.memory.trust import Origin as Origin
from butlers.memory.trust import Trust as Trust


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
