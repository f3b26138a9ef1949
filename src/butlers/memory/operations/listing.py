"""Operations that list memories page by page, and count them."""

from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from butlers.errors import InvalidInput
from butlers.memory.flows import browse
from butlers.memory.flows.browse import DEFAULT_LIMIT, MAX_DAYS, MAX_LIMIT, Page, PageRequest
from butlers.memory.model import ConsolidationStatus, Maturity, Then
from butlers.memory.operations import input_fields, page_results
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext
from butlers.memory.operations.results import MemoryStats, report
from butlers.memory.policy import states
from butlers.operation import Input, Route, Toolset

Many = Annotated[int, *input_fields.within(1, MAX_LIMIT)]


class PageInput(Input):
    """Which page of a listing."""

    limit: Many = DEFAULT_LIMIT
    """The maximum number of items."""
    cursor: Annotated[str, Field(max_length=200)] | None = None
    """The next_cursor of the previous page."""


class Paged(PageInput):
    """Which page of a listing, and of which time."""

    created_after: AwareDatetime | None = None
    """Only items stored at or after this time; give its UTC offset."""
    created_before: AwareDatetime | None = None
    """Only items stored before this time; give its UTC offset."""

    def wanted(self) -> PageRequest:
        """Return the page as the flows take it."""
        return PageRequest(self.limit, self.cursor, self.created_after, self.created_before)

    def filters(self, **limited: str | None) -> dict[str, Any]:
        """Return the other filters; `limited` are those that the caller's token limits."""
        shared = {*Paged.model_fields, *input_fields.Dated.model_fields}
        return {**self.model_dump(exclude=shared), **limited}


class ListFacts(Paged, input_fields.Dated):
    """Which facts."""

    state: Annotated[states.FactState, *input_fields.word(states.FactState)] | None = None
    """active, fading, superseded, expired or retracted."""
    scope: input_fields.Scope | None = None
    """Exactly this scope."""
    permanence: input_fields.HowLong | None = None
    """permanent, stable, standard, volatile or ephemeral."""
    subject: input_fields.Subject | None = None
    """Exactly this subject."""
    predicate: input_fields.Predicate | None = None
    """Exactly this predicate."""
    tag: input_fields.Tag | None = None
    """Only items with this tag."""
    entity_id: input_fields.Uuid | None = None
    """Only facts about this entity."""


@OPERATIONS.add(
    output=page_results.ItemPage[page_results.ListedFact],
    keeps_scopes=True,
    command="memory list facts",
    example="memory list facts --subject Ann --state active",
    routes=(Route("GET", "/facts"),),
)
async def list_facts(ctx: OperationContext, params: ListFacts) -> Page:
    """List facts page by page, newest first, past ones included. It does not count as a use.

    Returns {items, next_cursor}: each item with its state and its confidence now.
    """
    where = browse.FactFilter(**params.filters(scope=ctx.list_scope(params.scope)))
    page = params.wanted()
    then = Then(params.as_of, params.known_at)
    return await browse.list_page(ctx.memory, where, page, ctx.lineage, then)


class ListRules(Paged):
    """Which rules."""

    state: Annotated[states.RuleUse, *input_fields.word(states.RuleUse)] | None = None
    """active, fading or forgotten."""
    scope: input_fields.Scope | None = None
    """Exactly this scope."""
    maturity: Annotated[Maturity, *input_fields.word(Maturity)] | None = None
    """candidate, established, proven or anti_pattern."""
    tag: input_fields.Tag | None = None
    """Only items with this tag."""


@OPERATIONS.add(
    output=page_results.ItemPage[page_results.ListedRule],
    keeps_scopes=True,
    command="memory list rules",
    example="memory list rules --maturity proven",
    routes=(Route("GET", "/rules"),),
)
async def list_rules(ctx: OperationContext, params: ListRules) -> Page:
    """List rules page by page, newest first. It does not count as a use.

    Returns {items, next_cursor}: each item with its state, its maturity and its confidence now.
    """
    where = browse.RuleFilter(**params.filters(scope=ctx.list_scope(params.scope)))
    return await browse.list_page(ctx.memory, where, params.wanted(), ctx.lineage)


class ListEpisodes(Paged):
    """Which episodes."""

    state: Annotated[states.EpisodeState, *input_fields.word(states.EpisodeState)] | None = None
    """active or expired."""
    status: Annotated[ConsolidationStatus, *input_fields.word(ConsolidationStatus)] | None = None
    """The status of their consolidation."""
    butler: input_fields.Scope | None = None
    """Only episodes of this butler."""
    session_id: input_fields.Uuid | None = None
    """Only episodes of this session."""


@OPERATIONS.add(
    output=page_results.ItemPage[page_results.ListedEpisode],
    keeps_scopes=True,
    command="memory list episodes",
    example="memory list episodes --status pending",
    routes=(Route("GET", "/episodes"),),
)
async def list_episodes(ctx: OperationContext, params: ListEpisodes) -> Page:
    """List episodes page by page, newest first. It does not count as a use.

    Returns {items, next_cursor}: each item with the status of its consolidation.
    """
    where = browse.EpisodeFilter(**params.filters(butler=ctx.list_scope(params.butler, "butler")))
    return await browse.list_page(ctx.memory, where, params.wanted(), ctx.lineage)


class ListEntities(Paged):
    """Which entities."""

    state: Annotated[states.EntityState, *input_fields.word(states.EntityState)] | None = None
    """active or merged."""
    entity_type: input_fields.EntityKind | None = None
    """person, organization, place or other."""
    name: input_fields.Name | None = None
    """Part of a name or alias, in any case."""


@OPERATIONS.add(
    output=page_results.ItemPage[page_results.ListedEntity],
    tool="entity_list",
    command="entity list",
    example="entity list --name ann",
    routes=(Route("GET", "/entities"),),
)
async def list_entities(ctx: OperationContext, params: ListEntities) -> Page:
    """List entities page by page, newest first, merged ones included.

    Returns {items, next_cursor}: each item with its names and its number of current facts.
    """
    where = browse.EntityFilter(**params.filters())
    return await browse.list_page(ctx.memory, where, params.wanted(), ctx.lineage)


class ActivityInput(Input):
    """Which events."""

    limit: Many = DEFAULT_LIMIT
    """The maximum number of items."""
    cursor: input_fields.Uuid | None = None
    """The next_cursor of the previous page: older events."""
    after: input_fields.Uuid | None = None
    """The id of the newest event you have seen: only later events."""


@OPERATIONS.add(
    command="audit activity",
    output=page_results.Activity,
    example="audit activity -n 5",
    routes=(Route("GET", "/activity"),),
)
async def activity(ctx: OperationContext, params: ActivityInput) -> Page:
    """List recent events, newest first; with after, only later ones.

    Returns {items, next_cursor}: events with who did what, when and in which request.
    """
    if params.after is not None and params.cursor is not None:
        raise InvalidInput("after: found next to cursor; valid is one of them")
    if params.after is not None:
        return await browse.activity_after(ctx.memory, params.after, params.limit, ctx.lineage)
    cursor = str(params.cursor) if params.cursor else None
    return await browse.recent_activity(ctx.memory, params.limit, cursor, ctx.lineage)


class StatsInput(Input):
    """Which memories to count."""

    scope: input_fields.ScopeSeen = None


@OPERATIONS.add(
    command="audit stats",
    output=MemoryStats,
    toolset=Toolset.STANDARD,
    positional=("scope",),
    example="audit stats --scope general",
    routes=(Route("GET", "/stats"),),
)
async def stats(ctx: OperationContext, params: StatsInput) -> dict[str, Any]:
    """Count memories by type and state.

    Use it to see how much is stored and whether consolidation keeps up. scope narrows the
    counts of facts and rules. Returns {episodes, facts, rules, inbox}, each an object of counts;
    episodes.backlog_age_hours is the age of the oldest episode that waits.
    """
    scope = None if params.scope is None else await ctx.seen(params.scope)
    return _with_sessions(ctx, await browse.memory_stats(ctx.memory, scope, ctx.lineage))


def _with_sessions(ctx: OperationContext, counts: dict[str, Any]) -> dict[str, Any]:
    """Add to what waits for a person the sessions that could not be stored."""
    aside = ctx.sessions_aside() if ctx.lineage.origin.is_person else ()
    return counts | {"inbox": counts["inbox"] | ({"session": len(aside)} if aside else {})}


class OverviewInput(Input):
    """How many events to include."""

    events: Many = 15
    """The number of newest events."""


@OPERATIONS.add(
    command="audit overview",
    output=page_results.MemoryOverview,
    left_out={"http": "overview and glance return it with the butler's health and jobs"},
)
async def overview(ctx: OperationContext, params: OverviewInput) -> dict[str, Any]:
    """Show all counts, the time of the last consolidation, and the latest events.

    Returns {episodes, facts, rules, inbox, last_consolidated_at, activity}.
    """
    counts, events = await browse.memory_overview(ctx.memory, params.events, ctx.lineage)
    return {**_with_sessions(ctx, counts), "activity": events}


class TimelineInput(Input):
    """Which days to count."""

    days: Annotated[int, *input_fields.within(1, MAX_DAYS)] = 30
    """The number of days, including today."""


@OPERATIONS.add(
    command="audit timeline",
    output=report(states.TimelineCounts),
    example="audit timeline --days 7 --json",
    routes=(Route("GET", "/timeline"),),
)
async def timeline(ctx: OperationContext, params: TimelineInput) -> states.TimelineCounts:
    """Count facts and episodes by state for each of the last days, in UTC, from the events.

    Returns {days, facts, episodes, consolidation}: one count a day for each state.
    """
    return await browse.memory_timeline(ctx.memory, params.days, ctx.lineage)
