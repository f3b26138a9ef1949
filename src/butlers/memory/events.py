"""The words of the audit stream: what can happen, and to what."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID


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
    MEMORY_PREDICATE_TOLD = "memory_predicate_told"

    @property
    def subject(self) -> EventSubject | None:
        """What an event of this type is about, by its first word; None for the whole memory."""
        first = self.partition("_")[0]
        return None if first == "memory" else EventSubject(first)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, as the audit stream keeps it; without an id, to all memories."""

    type: EventType
    subject_id: UUID | None
    payload: dict[str, Any] = field(default_factory=dict)
