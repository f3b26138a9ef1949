"""Operations of upkeep: consolidate, clean up, re-embed, verify the event chain."""

from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from butlers.embedding import EmbeddingEngine, get_embedding_engine
from butlers.errors import InvalidInput, Unavailable
from butlers.memory.flows import history as flow
from butlers.memory.flows import reembed as reembedding
from butlers.memory.flows.consolidation import lease as letters
from butlers.memory.flows.consolidation import run
from butlers.memory.flows.consolidation.report import ConsolidationReport
from butlers.memory.flows.lifecycle import episode_retention, for_every_tenant
from butlers.memory.operations import input_fields, results
from butlers.memory.operations.input_fields import Limited
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext, maintains
from butlers.operation import Audience, Input, OperationEffect, Output, Route, Toolset

MAX_ENTRIES = 1_000_000_000


@maintains(
    output=results.report(ConsolidationReport),
    toolset=Toolset.STANDARD,
    command="consolidation run",
    routes=(Route("POST", "/consolidation"),),
)
async def run_consolidation(ctx: OperationContext, params: Input) -> ConsolidationReport:
    """Consolidate now: turn waiting episodes into facts and rules.

    Without a configured language model it only counts what waits, and changes nothing
    (dry_run is true). Returns counts per outcome, and errors.
    """
    return await run.run_consolidation(ctx.memory, ctx.model, ctx.lineage)


class RunEpisodeCleanup(Input):
    """How many episodes to keep."""

    max_entries: Annotated[int, *input_fields.within(0, MAX_ENTRIES)] | None = None
    """The number of episodes to keep; only consolidated ones are deleted."""


@OPERATIONS.add(
    output=results.report(episode_retention.CleanupReport),
    effect=OperationEffect.FINAL,
    is_maintenance=True,
    toolset=Toolset.STANDARD,
    command="consolidation cleanup",
    defaults={"max_entries": "episodes.max_entries"},
    example="consolidation cleanup --max-entries 5000",
    routes=(Route("POST", "/episodes/cleanup"),),
)
async def run_episode_cleanup(
    ctx: OperationContext, params: RunEpisodeCleanup
) -> episode_retention.CleanupReport:
    """Delete expired episodes, then the oldest consolidated ones beyond max_entries.

    Episodes that wait for consolidation are kept. You can restore deleted episodes from the bin
    until it is emptied.
    Returns {expired_deleted, capacity_deleted, remaining}.
    """
    await ctx.memory.believe_clock()
    await episode_retention.keep_unread(ctx.memory, ctx.lineage)
    await episode_retention.empty_bin(ctx.memory, ctx.lineage)
    most = ctx.memory.settings.episodes.max_entries
    most = most if params.max_entries is None else params.max_entries
    return await episode_retention.run_episode_cleanup(ctx.memory, ctx.lineage, most)


class ListDeadLetters(Limited):
    """How many dead letters to list."""

    limit: input_fields.ListLimit = input_fields.MOST_LISTED
    """The maximum number of items."""


@OPERATIONS.add(
    command="consolidation dead-letters",
    output=list[results.DeadLetter],
    routes=(Route("GET", "/dead-letters"),),
)
async def dead_letters(ctx: OperationContext, params: ListDeadLetters) -> list[dict[str, Any]]:
    """List dead letters: episodes that could not be consolidated, oldest first.

    They are kept until you decide: requeue them to try again, or forget them.
    Returns episodes with consolidation_attempts and dead_letter_reason.
    """
    return await letters.find_dead_letters(ctx.memory, params.limit, ctx.lineage)


class Requeue(Input):
    """Which dead letters to requeue."""

    episode_ids: list[input_fields.Uuid] | None = None
    """The episodes to try again; all dead letters if omitted."""


@maintains(
    command="consolidation requeue",
    output=results.single("requeued", "The number of episodes to try again.", int),
    positional=("episode_ids",),
    routes=(Route("POST", "/dead-letters/requeue"),),
)
async def requeue(ctx: OperationContext, params: Requeue) -> int:
    """Requeue dead letters for the next consolidation: those named, or all.

    Returns {requeued}: how many; an episode that is no dead letter is not counted.
    """
    return await letters.requeue(ctx.memory, params.episode_ids, ctx.lineage)


@OPERATIONS.add(
    output=list[results.Binned], command="consolidation bin", routes=(Route("GET", "/bin"),)
)
async def removed_episodes(ctx: OperationContext, params: Limited) -> list[dict[str, Any]]:
    """List the episodes in the bin, latest first. You can restore them.

    Returns episodes with the reason (expired, or evicted to stay within max_entries), when they
    were removed (binned_at) and when they are deleted for good (until).
    """
    return await letters.find_binned(ctx.memory, params.limit, ctx.lineage)


@OPERATIONS.add(
    output=list[results.EmbeddingModel], command="models list", routes=(Route("GET", "/models"),)
)
async def embedding_models(ctx: OperationContext, params: Input) -> list[dict[str, Any]]:
    """List the embedding models in use, and how many memories have a vector of each.

    Returns for each its model, its state (current, building, previous or aside), and how many
    memories of how many it has embedded.
    """
    versions = await reembedding.reembedding_status(ctx.memory, ctx.lineage)
    return [_model(ctx.lineage.tenant_id, version) for version in versions]


class Reembed(Input):
    """Which embedding model to use."""

    to: Path | None = None
    """The directory of the model to move to."""
    bundled: bool = False
    """Move to the installed model."""
    revert: bool = False
    """Go back to the previous model."""
    discard: bool = False
    """Delete the vectors of the previous model."""


_SLOW = "it takes minutes and names a directory; only the person who runs the home calls it"


@maintains(
    command="models reembed",
    output=list[results.EmbeddingModel],
    callers=Audience.OWNER,
    example="models reembed --bundled",
    left_out={"mcp": _SLOW, "http": _SLOW},
)
async def reembed(ctx: OperationContext, params: Reembed) -> list[dict[str, Any]]:
    """Move the memories of every tenant to another embedding model, while they are in use.

    If it is interrupted, run it again: it continues. Searches use the old model until all vectors
    of the new one exist, then switch at once. Without an option it lists the models.
    Returns every model of every tenant.
    """
    actor = ctx.lineage.actor
    if sum((params.to is not None, params.bundled, params.revert, params.discard)) > 1:
        raise InvalidInput("--to, --bundled, --revert and --discard: found several; valid is one")
    if params.to is not None or params.bundled:
        directory = params.to.expanduser().resolve() if params.to else None
        target = EmbeddingEngine(directory) if directory else get_embedding_engine()
        moved = await reembedding.reembed_all(
            ctx.memory, target, actor, ctx.on_progress, str(directory or "")
        )
        _raise_failures(moved.failed)
    elif params.revert or params.discard:
        step = reembedding.revert_reembedding if params.revert else reembedding.discard_previous
        _raise_failures((await for_every_tenant(ctx.memory, actor, step)).failed)
    known = await for_every_tenant(ctx.memory, actor, reembedding.reembedding_status)
    return [_model(tenant, one) for tenant, versions in known.done.items() for one in versions]


def _model(tenant: str, status: reembedding.VersionStatus) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "model": status.version.name,
        "state": status.version.state.value,
        "embedded": status.counts.embedded,
        "of": status.counts.memories,
    }


def _raise_failures(failed: dict[str, str]) -> None:
    if failed:
        raise Unavailable("\n".join(f"tenant {name}: {why}" for name, why in failed.items()))


class EventFault(Output):
    """A fault in the event chain."""

    fault: Literal["changed", "missing", "gap", "added", "erased", "head"]
    """An event changed or missing; a gap in the chain before this number; an event outside the
    chain; texts erased without a memory_erased event; a head that is not in the chain."""
    number: int | None
    """The number in the chain."""
    event_id: UUID | None
    at: results.Instant | None


class EventsVerified(Output):
    """Whether the event chain is intact."""

    intact: bool
    events: int
    erased: int
    """The number of events with erased texts, which leaves the chain intact."""
    faulty: int
    faults: list[EventFault]
    """The first faults."""
    head: str | None
    """The hash of the whole chain; note it elsewhere."""
    since_head: int | None
    """The number of events after the head you gave."""


class VerifyEvents(Input):
    """A head that you noted before."""

    since_head: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """A head that you noted elsewhere: checks that everything up to it is still there."""


@OPERATIONS.add(
    output=EventsVerified,
    command="audit verify",
    routes=(Route("GET", "/events/verify"),),
    left_out={"mcp": "only the person who runs the home verifies the event chain"},
)
async def verify_events(ctx: OperationContext, params: VerifyEvents) -> dict[str, Any]:
    """Verify the event chain: no event was changed, removed or added.

    Events cut off at the end of the chain show only against a head that you noted elsewhere.
    Returns whether the chain is intact, how many events it has, how many had texts erased, the
    head, and the first faults: what is wrong, at which number, with which event.
    """
    return await flow.verify_events(ctx.memory, ctx.lineage, params.since_head)
