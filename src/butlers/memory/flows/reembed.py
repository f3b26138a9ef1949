"""Move a tenant to another embedding model while it is in use, and back.

The other model's vectors are stored beside those in use, batch after batch, while searches go on;
a run that is cut short continues where it was. Once every memory has one, one transaction switches
to the other model. The old vectors stay, so that you can go back, until they are discarded. A query
is embedded by the model whose vectors it is compared with.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import structlog

from butlers.embedding import Embedder
from butlers.errors import Conflict, InvalidInput, NotFound, Unavailable
from butlers.memory.flows.lifecycle import TenantReports, for_every_tenant
from butlers.memory.flows.vectors import (
    OnProgress,
    VectorJob,
    embed_few,
    embed_missing,
    ignore_progress,
    move_into_rows,
    refuse_if_changed,
    vector_job,
)
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, VersionState
from butlers.memory.store import embeddings
from butlers.memory.store.embeddings import Counts, ModelVersion

LAST_FEW = 16
"""Memories of each kind that may be embedded while writers wait for the switch."""
_TRIES = 20
_PAUSE_SECONDS = 0.05

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """The version that a step was about, how many vectors it made, and whether it is in use."""

    version_id: UUID
    embedded: int
    current: bool


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """A model of a tenant, how many memories have a vector of it, and if it can be loaded."""

    version: ModelVersion
    counts: Counts
    available: bool


async def reembed(
    memory: Memory,
    target: Embedder,
    lineage: Lineage,
    on_progress: OnProgress = ignore_progress,
    directory: str = "",
) -> ReembedReport:
    """Move a tenant to another model; continue what was begun."""
    started = await start_reembedding(memory, target, lineage, on_progress, directory)
    if started.current:
        return started
    finished = await finish_reembedding(memory, lineage, on_progress)
    return ReembedReport(finished.version_id, started.embedded + finished.embedded, current=True)


async def reembed_all(
    memory: Memory,
    target: Embedder,
    actor: str,
    on_progress: OnProgress = ignore_progress,
    directory: str = "",
) -> TenantReports[ReembedReport]:
    """Move every tenant to another model; one that fails stops no other."""

    async def move(memory: Memory, lineage: Lineage) -> ReembedReport:
        return await reembed(memory, target, lineage, on_progress, directory)

    return await for_every_tenant(memory, actor, move)


async def start_reembedding(
    memory: Memory,
    target: Embedder,
    lineage: Lineage,
    on_progress: OnProgress = ignore_progress,
    directory: str = "",
) -> ReembedReport:
    """Make the target's vectors for every memory that has none; searches are not affected.

    Refuses a second move, another number of dimensions, and a model that cannot be loaded.
    """
    version = await _begin(memory, target, lineage, directory)
    embedded = await embed_missing(vector_job(memory, lineage, version, on_progress))
    return ReembedReport(version.id, embedded, version.state is VersionState.CURRENT)


async def finish_reembedding(
    memory: Memory, lineage: Lineage, on_progress: OnProgress = ignore_progress
) -> ReembedReport:
    """Switch to the model that is being built, once every memory has a vector of it."""
    version = await _version_in(memory, VersionState.BUILDING, lineage)
    if version is None:
        raise NotFound("no re-embedding is in progress; start one first")
    embedded = await _switch(vector_job(memory, lineage, version, on_progress))
    return ReembedReport(version.id, embedded, current=True)


async def revert_reembedding(
    memory: Memory, lineage: Lineage, on_progress: OnProgress = ignore_progress
) -> ReembedReport:
    """Cancel the move that is under way, or go back to the model used before it."""
    building = await _version_in(memory, VersionState.BUILDING, lineage)
    if building is not None:
        return await _cancel(memory, building, lineage)
    previous = await _version_in(memory, VersionState.PREVIOUS, lineage)
    if previous is None:
        raise NotFound("there is no embedding model to go back to: its vectors were discarded")
    job = vector_job(memory, lineage, previous, on_progress)
    # What was stored since the move has no vector of the old model yet.
    embedded = await embed_missing(job)
    return ReembedReport(previous.id, embedded + await _switch(job), current=True)


async def discard_previous(memory: Memory, lineage: Lineage) -> int:
    """Move the vectors in use into the rows, drop all others for good; return how many moved."""
    current = await _version_in(memory, VersionState.CURRENT, lineage)
    if current is None:
        return 0
    await embed_missing(vector_job(memory, lineage, current, ignore_progress))
    settled = await move_into_rows(memory, current, lineage)
    async with memory.transaction(lineage) as tx:
        await embeddings.hold(tx)
        await embeddings.leave(tx, was=VersionState.PREVIOUS, state=VersionState.ASIDE)
        for version in await embeddings.find_versions(tx):
            if version.state is VersionState.ASIDE:
                await embeddings.drop_vectors(tx, version_id=version.id)
    return settled


async def reembedding_status(memory: Memory, lineage: Lineage) -> list[VersionStatus]:
    """List the tenant's models, newest first, with their progress."""
    async with memory.transaction(lineage) as tx:
        versions = await embeddings.find_versions(tx)
        counts = [await embeddings.count_vectors(tx, version.id) for version in versions]
    loaded = [memory.engine_of(version) is not None for version in versions]
    return list(map(VersionStatus, versions, counts, loaded))


async def _begin(
    memory: Memory, target: Embedder, lineage: Lineage, directory: str
) -> ModelVersion:
    """Register the target's version; it is being built from now on, unless it is in use."""
    _check_target(memory, target, directory)
    async with memory.transaction(lineage) as tx:
        version_id = await embeddings.register_version(
            tx, memory.new_id(), target, directory, memory.now()
        )
        await embeddings.hold(tx)
        await embeddings.locate(tx, id=version_id, directory=directory)
        versions = {version.id: version for version in await embeddings.find_versions(tx)}
        version = versions.pop(version_id)
        for other in versions.values():
            if other.state is VersionState.BUILDING:
                raise Conflict(
                    f"re-embedding with {other.name} is in progress; finish or revert it first"
                )
        vector_job(memory, lineage, version, ignore_progress)  # refuses what cannot be loaded
        if version.state is VersionState.CURRENT:
            return version
        await embeddings.enter(tx, id=version_id, state=VersionState.BUILDING)
    return replace(version, state=VersionState.BUILDING)


def _check_target(memory: Memory, target: Embedder, directory: str) -> None:
    wanted = memory.settings.embedding_dimensions
    if target.dimensions != wanted:
        raise InvalidInput(
            f"target: found a model of {target.dimensions} dimensions; valid is {wanted}"
        )
    if directory and not Path(directory).is_absolute():
        raise InvalidInput(
            f"directory: found {directory!r}; valid is an absolute path, or nothing "
            "for the installed model"
        )


async def _version_in(memory: Memory, state: VersionState, lineage: Lineage) -> ModelVersion | None:
    async with memory.transaction(lineage) as tx:
        versions = await embeddings.find_versions(tx)
    return next((version for version in versions if version.state is state), None)


async def _switch(job: VectorJob) -> int:
    """Switch to the version, embedding what was stored meanwhile; return how many that were."""
    embedded = 0
    for attempt in range(_TRIES):
        made = await _try_to_switch(job)
        if made is not None:
            tenant_id, model = job.lineage.tenant_id, job.version.name
            _log.info("embedding_model_changed", tenant_id=tenant_id, model=model)
            return embedded + made + await _embed_stragglers(job)
        embedded += await embed_missing(job)
        await asyncio.sleep(_PAUSE_SECONDS * attempt)
    raise Unavailable(
        f"memories kept changing while they were embedded with {job.version.name}; nothing is "
        "lost and searches use the old model: try again at a quieter time"
    )


async def _try_to_switch(job: VectorJob) -> int | None:
    """Switch in one transaction, or return None while too many memories have no vector.

    Locks out writers of vectors, so that none is missed.
    """
    made = 0
    async with job.memory.transaction(job.lineage) as tx:
        await embeddings.hold(tx)
        await refuse_if_changed(job, tx)
        for kind in MemoryType:
            few = await embeddings.find_without(tx, kind, job.version.id, LAST_FEW + 1)
            if len(few) > LAST_FEW or await embed_few(job, tx, kind, few) < len(few):
                return None
            made += len(few)
        await embeddings.leave(tx, was=VersionState.PREVIOUS, state=VersionState.ASIDE)
        await embeddings.leave(tx, was=VersionState.CURRENT, state=VersionState.PREVIOUS)
        await embeddings.enter(tx, id=job.version.id, state=VersionState.CURRENT)
        return made


async def _embed_stragglers(job: VectorJob) -> int:
    """Embed what was embedded before the switch and stored after it."""
    current = await _version_in(job.memory, VersionState.CURRENT, job.lineage)
    if current is None or current.id != job.version.id:
        return 0
    return await embed_missing(vector_job(job.memory, job.lineage, current, ignore_progress))


async def _cancel(memory: Memory, building: ModelVersion, lineage: Lineage) -> ReembedReport:
    async with memory.transaction(lineage) as tx:
        await embeddings.hold(tx)
        await embeddings.enter(tx, id=building.id, state=VersionState.ASIDE)
        await embeddings.drop_vectors(tx, version_id=building.id)
    return ReembedReport(building.id, 0, current=False)
