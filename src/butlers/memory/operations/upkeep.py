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
from butlers.memory.flows.lifecycle.episode_retention import CleanupReport
from butlers.memory.flows.reembed import VersionStatus
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.operations import fields, results
from butlers.memory.operations.context import OperationContext
from butlers.memory.operations.results import Instant
from butlers.memory.operations.table import OPERATIONS
from butlers.operation import Audience, Input, OperationEffect, Output, Route, Toolset

MAX_ENTRIES = 1_000_000_000
MAX_BINNED = 1_000


class RunConsolidation(Input):
    """Nothing: everything that waits."""


@OPERATIONS.add(
    output=results.Consolidation,
    effect=OperationEffect.WRITES,
    is_maintenance=True,
    toolset=Toolset.STANDARD,
    command="consolidate",
    example="consolidate",
    routes=(Route("POST", "/consolidation"),),
)
async def run_consolidation(ctx: OperationContext, params: RunConsolidation) -> ConsolidationReport:
    """Turn waiting episodes into facts and rules now, instead of at the next scheduled time.

    Without a configured language model it only counts what waits, and changes nothing
    (dry_run is true). Returns counts per outcome, and errors in words.
    """
    return await run.run_consolidation(ctx.memory, ctx.model, ctx.lineage)


class RunEpisodeCleanup(Input):
    """How much may stay."""

    max_entries: Annotated[int, *fields.within(0, MAX_ENTRIES)] | None = None
    """How many episodes may stay; only consolidated ones make room."""


@OPERATIONS.add(
    output=results.EpisodeCleanup,
    effect=OperationEffect.FINAL,
    is_maintenance=True,
    toolset=Toolset.STANDARD,
    command="cleanup",
    defaults={"max_entries": "episodes.max_entries"},
    example="cleanup --max-entries 5000",
    routes=(Route("POST", "/episodes/cleanup"),),
)
async def run_episode_cleanup(ctx: OperationContext, params: RunEpisodeCleanup) -> CleanupReport:
    """Delete expired episodes, then the oldest consolidated ones beyond max_entries.

    Episodes that still wait for consolidation are kept. What is deleted lies in the bin for a
    while, from which it can be restored.
    Returns {expired_deleted, capacity_deleted, remaining}.
    """
    await ctx.memory.believe_clock()
    await episode_retention.keep_unread(ctx.memory, ctx.lineage)
    await episode_retention.empty_bin(ctx.memory, ctx.lineage)
    most = ctx.memory.settings.episodes.max_entries
    most = most if params.max_entries is None else params.max_entries
    return await episode_retention.run_episode_cleanup(ctx.memory, ctx.lineage, most)


class AskedDeadLetters(Input):
    """How many of them."""

    limit: Annotated[int, *fields.within(1, MAX_BINNED)] = MAX_BINNED
    """How many at most, the oldest first."""


@OPERATIONS.add(
    output=list[results.DeadLetter],
    example="dead-letters",
    routes=(Route("GET", "/dead-letters"),),
)
async def dead_letters(ctx: OperationContext, params: AskedDeadLetters) -> list[dict[str, Any]]:
    """List the episodes that could not be consolidated, with the reason, oldest first.

    They are kept until somebody decides: requeue them to have them tried again, forget what nobody
    needs. Returns episodes with consolidation_attempts and dead_letter_reason.
    """
    return await letters.find_dead_letters(ctx.memory, params.limit, ctx.lineage)


class Requeue(Input):
    """Which dead letters."""

    episode_ids: list[fields.Uuid] | None = None
    """Those to be tried again. Left out: all of them."""


@OPERATIONS.add(
    output=results.Requeued,
    effect=OperationEffect.WRITES,
    is_maintenance=True,
    positional=("episode_ids",),
    example="requeue",
    routes=(Route("POST", "/dead-letters/requeue"),),
)
async def requeue(ctx: OperationContext, params: Requeue) -> int:
    """Let dead letters be tried again at the next consolidation: those named, or all of them.

    Returns {requeued}: how many there were; an episode that is no dead letter is not counted.
    """
    return await letters.requeue(ctx.memory, params.episode_ids, ctx.lineage)


class AskedBin(Input):
    """How much of it."""

    limit: Annotated[int, *fields.within(1, MAX_BINNED)] = 100
    """How many at most, the latest first."""


@OPERATIONS.add(
    output=list[results.Binned],
    command="bin",
    example="bin",
    routes=(Route("GET", "/bin"),),
)
async def removed_episodes(ctx: OperationContext, params: AskedBin) -> list[dict[str, Any]]:
    """List the episodes that a cleanup removed and that can still be restored, latest first.

    Returns episodes with the reason (expired, or evicted to stay within max_entries), when they
    were put there (binned_at) and when they are deleted for good (until).
    """
    return await letters.find_binned(ctx.memory, params.limit, ctx.lineage)


class AskedModels(Input):
    """Nothing: all that are known."""


@OPERATIONS.add(
    output=list[results.EmbeddingModel],
    command="models",
    example="models",
    routes=(Route("GET", "/models"),),
)
async def embedding_models(ctx: OperationContext, params: AskedModels) -> list[dict[str, Any]]:
    """List the embedding models your memories know, and how many have a vector of each.

    Returns for each its model, its state (current, building, previous or aside) and how many of
    how many memories are embedded by it.
    """
    known = await reembedding.reembedding_status(ctx.memory, ctx.lineage)
    return [_model(ctx.lineage.tenant_id, one) for one in known]


class Reembed(Input):
    """Where to, if anywhere."""

    to: Path | None = None
    """Directory of the model to move to."""
    bundled: bool = False
    """Move to the model that is installed."""
    revert: bool = False
    """Go back to the model used before."""
    discard: bool = False
    """Drop the vectors kept for going back."""


_SLOW = "it takes minutes and names a directory of the machine; whoever runs the home calls it"


@OPERATIONS.add(
    output=list[results.EmbeddingModel],
    effect=OperationEffect.WRITES,
    is_maintenance=True,
    callers=Audience.OWNER,
    example="reembed --bundled",
    left_out={"mcp": _SLOW, "http": _SLOW},
)
async def reembed(ctx: OperationContext, params: Reembed) -> list[dict[str, Any]]:
    """Move the memories of every tenant to another embedding model, while they are in use.

    Interrupted, it goes on where it stopped. Searches use the old model until all vectors of the
    new one are there; then it is switched at once. Without an option: what models are known.
    Returns every model of every tenant.
    """
    if sum((params.to is not None, params.bundled, params.revert, params.discard)) > 1:
        raise InvalidInput("--to, --bundled, --revert and --discard: found several; valid is one")
    if params.to is not None or params.bundled:
        directory = params.to.expanduser().resolve() if params.to else None
        target = EmbeddingEngine(directory) if directory else get_embedding_engine()
        moved = await reembedding.reembed_all(
            ctx.memory, target, ctx.lineage.actor, ctx.on_progress, str(directory or "")
        )
        _raise_failures(moved.failed)
    elif params.revert or params.discard:
        step = reembedding.revert_reembedding if params.revert else reembedding.discard_previous
        stepped = await for_every_tenant(ctx.memory, ctx.lineage.actor, step)
        _raise_failures(stepped.failed)
    return await _every_model(ctx.memory, ctx.lineage)


async def _every_model(memory: Memory, lineage: Lineage) -> list[dict[str, Any]]:
    told = await for_every_tenant(memory, lineage.actor, reembedding.reembedding_status)
    return [_model(tenant, one) for tenant, known in told.done.items() for one in known]


def _model(tenant: str, status: VersionStatus) -> dict[str, Any]:
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
    """Where the audit trail does not hold."""

    fault: Literal["changed", "missing", "gap", "added", "erased", "head"]
    """An event that is not what was told, or gone; places of the chain that are gone before this
    one; an event in no place of it; texts erased that no event tells of; a head that is not in it.
    """
    number: int | None
    """Which place of the chain."""
    event_id: UUID | None
    at: Instant | None


class EventsVerified(Output):
    """Whether the audit trail is what was told."""

    intact: bool
    events: int
    erased: int
    """How many had texts erased, which leaves the chain as it was."""
    faulty: int
    faults: list[EventFault]
    """The first of them."""
    head: str | None
    """The hash that stands for all of it; worth noting elsewhere."""
    since_head: int | None
    """How many events came after the head that was asked about."""


class VerifyEvents(Input):
    """Since when, if something was noted."""

    since_head: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """The head that was noted elsewhere: whether all that it stood for is still there."""


@OPERATIONS.add(
    output=EventsVerified,
    command="verify",
    example="verify",
    routes=(Route("GET", "/events/verify"),),
    left_out={"mcp": "whether the audit trail holds is asked by whoever answers for it"},
)
async def verify_events(ctx: OperationContext, params: VerifyEvents) -> dict[str, Any]:
    """Check that the events are what was told: none changed, missing or added since.

    What was cut off at the end together with its places in the chain shows only against a head that
    was noted elsewhere.
    Returns whether they are intact, how many there are, how many had texts erased, the head, and
    the first faults: what is wrong, at which place, with which event.
    """
    return await flow.verify_events(ctx.memory, ctx.lineage, params.since_head)
