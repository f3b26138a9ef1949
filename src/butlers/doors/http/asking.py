"""What callers may ask for; a key that nobody knows is refused."""

from typing import Annotated
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from butlers.memory.flows.browse import DEFAULT_LIMIT, MAX_LIMIT, Wanted
from butlers.memory.model import ConsolidationStatus, EntityType, Maturity, Permanence
from butlers.memory.policy import inputs
from butlers.memory.policy.states import EntityState, EpisodeState, FactState, RuleUse

Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="How many at most.")]
Scope = Annotated[str, Field(min_length=1, max_length=inputs.MAX_SCOPE)]
Tag = Annotated[str, Field(min_length=1, max_length=inputs.MAX_TAG)]


class Asked(BaseModel):
    """A query or a body with known keys only."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Paged(Asked):
    """Which page of a listing, and from which time."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Annotated[str, Field(max_length=200)] | None = None
    """The next_cursor of the page before."""
    created_after: AwareDatetime | None = None
    created_before: AwareDatetime | None = None

    def wanted(self) -> Wanted:
        """The page as the flows know it."""
        return Wanted(self.limit, self.cursor, self.created_after, self.created_before)


class AskedFacts(Paged):
    """Which facts."""

    state: FactState | None = None
    scope: Scope | None = None
    permanence: Permanence | None = None
    subject: Annotated[str, Field(min_length=1, max_length=inputs.MAX_SUBJECT)] | None = None
    predicate: Annotated[str, Field(min_length=1, max_length=inputs.MAX_PREDICATE)] | None = None
    tag: Tag | None = None
    entity_id: UUID | None = None


class AskedRules(Paged):
    """Which rules."""

    state: RuleUse | None = None
    scope: Scope | None = None
    maturity: Maturity | None = None
    tag: Tag | None = None


class AskedEpisodes(Paged):
    """Which episodes."""

    state: EpisodeState | None = None
    status: ConsolidationStatus | None = None
    """Where they stand on their way to knowledge."""
    butler: Scope | None = None
    session_id: UUID | None = None


class AskedEntities(Paged):
    """Which entities."""

    state: EntityState | None = None
    entity_type: EntityType | None = None
    name: Annotated[str, Field(min_length=1, max_length=inputs.MAX_NAME)] | None = None
    """Found anywhere in a name or an alias, in any case."""


class AskedActivity(Asked):
    """Which part of the audit stream."""

    limit: Limit = DEFAULT_LIMIT
    cursor: UUID | None = None
    """The next_cursor of the page before: older events."""
    after: UUID | None = None
    """The id of the newest event seen: only what happened since."""
