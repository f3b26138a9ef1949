"""The vocabularies and values of the memory module."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.memory.records import MemoryRef as MemoryRef
from butlers.memory.records import MemoryType as MemoryType
from butlers.memory.records import New as New
from butlers.memory.records import NewEpisode as NewEpisode
from butlers.memory.records import NewFact as NewFact
from butlers.memory.records import NewRule as NewRule
from butlers.memory.records import Permanence as Permanence
from butlers.memory.records import PieceKind as PieceKind
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
    """Whether an episode was consolidated."""

    PENDING = "pending"
    CONSOLIDATED = "consolidated"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"


class RemovalReason(StrEnum):
    """Why the cleanup put an episode into the bin."""

    EXPIRED = "expired"
    EVICTED = "evicted"


class Relation(StrEnum):
    """How one memory relates to another."""

    DERIVED_FROM = "derived_from"
    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    SUPERSEDES = "supersedes"
    RELATED_TO = "related_to"
    DEPENDS_ON = "depends_on"


class Direction(StrEnum):
    """Which links of a memory to list."""

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
    """How to search memories."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


class RuleOutcome(StrEnum):
    """The outcome of applying a rule."""

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
    """Whether two facts contradict or repeat each other."""

    CONFLICT = "conflict"
    SAME = "same"


class Settlement(StrEnum):
    """How a conflict was settled: which fact holds, both, the newer since a time, or same."""

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
    """How a tenant uses a model's vectors."""

    CURRENT = "current"
    BUILDING = "building"
    PREVIOUS = "previous"
    ASIDE = "aside"


@dataclass(frozen=True, slots=True)
class Then:
    """The time of a query: when a fact was valid, and when it was known; None is now.

    What it is about is the first that is given: `then.as_of or then.known_at or now`.
    """

    as_of: datetime | None = None
    known_at: datetime | None = None


NOW = Then()


@dataclass(frozen=True, slots=True)
class Link:
    """A directed edge between two memories."""

    source: MemoryRef
    relation: Relation
    target: MemoryRef


class EventSubject(StrEnum):
    """What an event is about."""

    EPISODE = "episode"
    FACT = "fact"
    RULE = "rule"
    ENTITY = "entity"
    LINK = "link"
    PROPOSAL = "proposal"
    PROJECT = "project"
    CONFLICT = "conflict"


class EventType(StrEnum):
    """The types of events; `docs/events.md` documents their payloads."""

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
    EPISODE_OUTDATED = "episode_outdated"
    EPISODE_REINSTATED = "episode_reinstated"
    FACT_CREATED = "fact_created"
    FACT_SUPERSEDED = "fact_superseded"
    FACT_BOUNDED = "fact_bounded"
    FACT_CONFIRMED = "fact_confirmed"
    FACT_RETRACTED = "fact_retracted"
    FACT_RESTORED = "fact_restored"
    FACT_FADING = "fact_fading"
    FACT_RECOVERED = "fact_recovered"
    FACT_EXPIRED = "fact_expired"
    FACT_ACCEPTED = "fact_accepted"
    FACT_UNCONFIRMED = "fact_unconfirmed"
    FACT_ANCHORED = "fact_anchored"
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
    CONFLICT_FOUND = "conflict_found"
    CONFLICT_SETTLED = "conflict_settled"
    CONFLICT_REOPENED = "conflict_reopened"
    MEMORY_PREDICATE_TOLD = "memory_predicate_told"

    subject: EventSubject | None
    """The subject of the event, by its first word; None for the whole memory."""

    def __init__(self, name: str) -> None:
        first = name.partition("_")[0]
        self.subject = None if first == "memory" else EventSubject(first)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the audit stream; without an id, of the whole memory."""

    type: EventType
    subject_id: UUID | None
    payload: dict[str, Any] = field(default_factory=dict)
