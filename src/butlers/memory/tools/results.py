"""What the tools answer; their schemas tell a client what to expect."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """An answer; keys beyond those declared are passed on."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True, allow_inf_nan=False)


class EpisodeStored(Answer):
    """An episode that was stored."""

    id: str
    expires_at: str
    """When it is dropped, unless consolidated before (ISO 8601)."""


class FactStored(Answer):
    """A fact that was stored."""

    id: str
    superseded_id: str | None
    """The fact it replaced, or null."""


class RuleStored(Answer):
    """A rule that was stored."""

    id: str


class RememberedMemory(Answer):
    """A memory, with all the columns of its kind."""

    memory_type: Literal["episode", "fact", "rule"]
    id: str
    content: str
    created_at: str
    reference_count: int
    """How often it was recalled or read."""
    metadata: dict[str, Any]


class RecalledMemory(RememberedMemory):
    """A memory worth recalling, and why."""

    composite_score: float
    score_parts: dict[str, float]
    """relevance, importance, recency and confidence, before weighting."""
    rrf_score: float


class MarkedRule(Answer):
    """A rule after feedback, with all its columns."""

    id: str
    content: str
    maturity: Literal["candidate", "established", "proven", "anti_pattern"]
    effectiveness_score: float
    applied_count: int
    success_count: int
    harmful_count: int


class Confirmation(Answer):
    """Whether a memory was confirmed."""

    confirmed: bool


class Forgetting(Answer):
    """Whether a memory was forgotten by this call."""

    forgotten: bool


class EpisodeCounts(Answer):
    """Episodes by state of consolidation."""

    total: int
    unconsolidated: int
    consolidated: int
    failed: int
    dead_letter: int
    backlog_age_hours: float | None
    """Age of the oldest episode that waits; null when none does."""


class FactCounts(Answer):
    """Facts by state."""

    active: int
    fading: int
    superseded: int
    expired: int
    retracted: int


class RuleCounts(Answer):
    """Rules by maturity; a forgotten one counts as such alone."""

    candidate: int
    established: int
    proven: int
    anti_pattern: int
    forgotten: int


class Stats(Answer):
    """How much is remembered."""

    episodes: EpisodeCounts
    facts: FactCounts
    rules: RuleCounts


class EntityCreated(Answer):
    """An entity that was created."""

    entity_id: str


class Entity(Answer):
    """An entity as it is now."""

    entity_id: str
    canonical_name: str
    entity_type: str
    aliases: list[str]
    metadata: dict[str, Any]
    """Holds merged_into when the entity was merged into another."""
    created_at: str
    updated_at: str


class EntityCandidate(Answer):
    """An entity that a name may mean."""

    entity_id: str
    canonical_name: str
    entity_type: str
    score: float
    name_match: Literal["exact", "alias", "prefix", "fuzzy"]
    aliases: list[str]


class EntitiesMerged(Answer):
    """What a merge did."""

    source_entity_id: str
    target_entity_id: str
    facts_repointed: int
    facts_superseded: int
    aliases_added: int


class Consolidation(Answer):
    """What a consolidation did, or would take when dry_run is true."""

    episodes_processed: int
    facts_created: int
    facts_updated: int
    rules_created: int
    confirmations_made: int
    errors: list[str]
    dry_run: bool


class EpisodeCleanup(Answer):
    """What a cleanup deleted, and what is left."""

    expired_deleted: int
    capacity_deleted: int
    remaining: int
