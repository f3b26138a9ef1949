"""The results of listings, details and operations on entities."""

from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from butlers.memory.operations.results import (
    Candidate,
    Happened,
    Instant,
    MemoryKind,
    MemoryStats,
    RememberedMemory,
)
from butlers.operation import Output

Item = TypeVar("Item")


class FactAtStake(Output):
    """A fact that a merge moves or supersedes."""

    id: UUID
    subject: str
    predicate: str
    content: str
    scope: str
    state: str
    effective_confidence: float
    """Its confidence now, after decay."""


class ListedFact(FactAtStake):
    """A fact of a listing; like every listed content, its content is cut at 2,000 characters."""

    content_length: int
    permanence: str
    created_at: Instant


class Listed(Output):
    """An item of a listing."""

    id: UUID
    created_at: Instant
    state: str


class ListedRule(Listed):
    """A rule of a listing."""

    content: str
    content_length: int
    scope: str
    maturity: str
    effectiveness_score: float
    effective_confidence: float


class ListedEpisode(Listed):
    """An episode of a listing."""

    butler: str
    content: str
    content_length: int
    consolidation_status: str
    expires_at: Instant | None


class ListedEntity(Listed):
    """An entity of a listing."""

    canonical_name: str
    entity_type: str
    aliases: list[str]
    active_facts: int
    """The number of current facts about it."""


class ItemPage(Output, Generic[Item]):
    """A page of a listing, newest first."""

    items: list[Item]
    next_cursor: str | None
    """The cursor of the next page; null on the last."""


Activity = ItemPage[Happened]


class PointOfForecast(Output):
    """The confidence of a memory at a time, unless it is confirmed again."""

    at: Instant
    confidence: float


class MemoryDetail(Output):
    """A memory with its provenance, links and events."""

    memory_type: MemoryKind
    memory: dict[str, Any]
    stored_by: str | None
    effective_confidence: float | None
    fades_at: Instant | None
    expires_at: Instant | None
    source_episodes: list[dict[str, Any]]
    replaced: list[dict[str, Any]]
    replaced_by: list[dict[str, Any]]
    confirmations: list[dict[str, Any]]
    applications: list[dict[str, Any]]
    links: list[dict[str, Any]]
    events: list[Happened]
    forecast: list[PointOfForecast]


class EntityDetail(Output):
    """An entity with its facts and events."""

    entity: dict[str, Any]
    facts: list[ListedFact]
    more_facts: bool
    """Whether there are more than the newest hundred."""
    events: list[Happened]


class FoundAll(Output):
    """The results of a search, best first."""

    items: list[RememberedMemory]


class MemoryOverview(MemoryStats):
    """All counts and the latest events."""

    last_consolidated_at: Instant | None
    activity: list[Happened] = []


class ContextBlock(Output):
    """The context: a block of memories to start a task with."""

    text: str
    tokens: int
    included: list[dict[str, Any]]
    """The section, memory_type and id of each line."""


class ContextLineResult(Output):
    """A line of a context, and why it is there."""

    memory_type: MemoryKind
    id: UUID
    text: str
    tokens: int
    reason: Literal["recalled", "recent"]
    composite_score: float | None
    score_parts: dict[str, float] | None


class ContextSectionResult(Output):
    """A section of a context and its share of the budget."""

    heading: str
    share: float
    token_share: int
    tokens: int
    included: list[ContextLineResult]
    left_out: list[ContextLineResult]


class ContextPreview(Output):
    """The context an agent would get, with its parts."""

    text: str
    tokens: int
    token_budget: int
    sections: list[ContextSectionResult]


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


class EntityCandidate(Candidate):
    """An entity that a name may mean, and how the name matched."""

    entity_type: str
    name_match: Literal["exact", "alias", "prefix", "fuzzy"]
    aliases: list[str]


class EntitiesMerged(Output):
    """What a merge did, or would do."""

    source_entity_id: UUID
    target_entity_id: UUID
    facts_repointed: int
    facts_superseded: int
    aliases_added: int


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
