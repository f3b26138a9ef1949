"""What the API answers; keys beyond those declared are the columns of the row.

A remote butler's answers are read by the same models: what pages compare, count with or draw is
declared, so that an answer they could not show is none.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime

from butlers.memory.tools.results import Answer, Stats


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must be a time between the years 1 and 9999, in UTC too") from error


Instant = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class Listed(Answer):
    """One of a listing: its content is cut at 2,000 characters."""

    id: UUID
    created_at: Instant
    state: str


class ListedFact(Listed):
    """A fact of a listing."""

    subject: str
    predicate: str
    content: str
    content_length: int
    scope: str
    permanence: str
    effective_confidence: float
    """What is left of its confidence now."""


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
    """How many facts about it hold."""


class Happened(Answer):
    """Something that happened, as the audit stream keeps it."""

    id: UUID
    event_type: str
    actor: str | None
    request_id: str | None
    memory_type: str | None
    memory_id: UUID | None
    payload: dict[str, Any]
    created_at: Instant


class Facts(Answer):
    """A page of facts, newest first."""

    items: list[ListedFact]
    next_cursor: str | None
    """Asks for the next page; null on the last."""


class Rules(Answer):
    """A page of rules, newest first."""

    items: list[ListedRule]
    next_cursor: str | None


class Episodes(Answer):
    """A page of episodes, newest first."""

    items: list[ListedEpisode]
    next_cursor: str | None


class Entities(Answer):
    """A page of entities, newest first."""

    items: list[ListedEntity]
    next_cursor: str | None


class Activity(Answer):
    """What happened, newest first."""

    items: list[Happened]
    next_cursor: str | None


class PointOfForecast(Answer):
    """How sure a memory will be at an instant, unless confirmed again."""

    at: Instant
    confidence: float


class MemoryDetail(Answer):
    """A memory with all that explains it."""

    memory_type: Literal["episode", "fact", "rule"]
    memory: dict[str, Any]
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


class EntityDetail(Answer):
    """An entity with what is known about it."""

    entity: dict[str, Any]
    facts: list[ListedFact]
    more_facts: bool
    """Whether there are more than the newest hundred."""
    events: list[Happened]


class Found(Answer):
    """A memory that a search found, with the scores of its mode."""

    memory_type: Literal["episode", "fact", "rule"]
    id: UUID
    content: str
    content_length: int
    created_at: Instant
    subject: str | None = None
    predicate: str | None = None
    state: str | None = None
    effective_confidence: float | None = None
    rrf_score: float | None = None
    semantic_rank: int | None = None
    keyword_rank: int | None = None
    similarity: float | None = None
    rank: float | None = None
    composite_score: float | None = None
    score_parts: dict[str, float] | None = None


class FoundAll(Answer):
    """What a search found, best first."""

    items: list[Found]


class ContextLine(Answer):
    """A memory as a line of a context, and why it is offered."""

    memory_type: Literal["episode", "fact", "rule"]
    id: UUID
    text: str
    tokens: int
    reason: Literal["recalled", "recent"]
    composite_score: float | None
    score_parts: dict[str, float] | None


class ContextSection(Answer):
    """A section of a context and its share of the budget."""

    heading: str
    share: float
    token_share: int
    tokens: int
    included: list[ContextLine]
    left_out: list[ContextLine]


class ContextPreview(Answer):
    """The very block an agent would be given, taken apart."""

    text: str
    tokens: int
    token_budget: int
    sections: list[ContextSection]


class Overview(Stats):
    """What a fleet shows of one butler."""

    last_consolidated_at: Instant | None
    health: Literal["ok", "unwell"]


class Restored(Answer):
    """Whether a memory was taken back by this call."""

    restored: bool
