"""The results of operations on entities."""

from typing import Any, Literal
from uuid import UUID

from butlers.memory.operations.results import Instant
from butlers.operation import Output


class EntityCreated(Output):
    """An entity that was created."""

    entity_id: UUID


class Entity(Output):
    """An entity as it is now."""

    entity_id: UUID
    canonical_name: str
    entity_type: str
    aliases: list[str]
    metadata: dict[str, Any]
    """Holds merged_into when the entity was merged into another."""
    created_at: Instant
    updated_at: Instant


class EntityCandidate(Output):
    """An entity that a name may mean."""

    entity_id: UUID
    canonical_name: str
    entity_type: str
    score: float
    name_match: Literal["exact", "alias", "prefix", "fuzzy"]
    aliases: list[str]


class EntitiesMerged(Output):
    """What a merge did, or would do."""

    source_entity_id: UUID
    target_entity_id: UUID
    facts_repointed: int
    facts_superseded: int
    aliases_added: int


class FactAtStake(Output):
    """A fact that a merge moves or supersedes."""

    id: UUID
    subject: str
    predicate: str
    content: str
    scope: str
    state: str
    effective_confidence: float


class FactMergeResult(Output):
    """Two facts that would be current under one key."""

    stays: FactAtStake
    gives_way: FactAtStake
    why: str
    """Why it stays: more trusted, more confident, or the target's own."""


class MergePreviewed(EntitiesMerged):
    """What a merge would do, and to which facts; at most a hundred of each."""

    rivalries: list[FactMergeResult]
    repointed: list[FactAtStake]


class EntitiesParted(Output):
    """What undoing a merge did."""

    source_entity_id: UUID
    target_entity_id: UUID
    facts_returned: int
    facts_restored: int
    facts_left: list[UUID]
    """Facts that stay superseded, because another fact has their key now."""
