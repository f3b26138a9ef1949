"""Moving a tenant to another embedding model while it is in use, and back.

The other model's vectors are laid aside, batch after batch, while searches go on with those in
use; what is already there is the progress, so that a run cut short is simply run again. Once no
memory is without, one transaction makes the other model the one in use. The old vectors stay
where they are, and with them the way back, until they are discarded. A query is embedded by the
model whose vectors it is compared with, whichever that is at the moment.
"""

import asyncio
from collections.abc import Iterable
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
    refuse_if_changed,
    work_on,
)
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, VersionState
from butlers.memory.store import embeddings
from butlers.memory.store.embeddings import Counts, ModelVersion

LAST_FEW = 16
"""Memories of each kind that may be embedded while writers wait for the move."""
SETTLED = 500
"""Vectors brought home in one transaction."""
_TRIES = 20
_PAUSE_SECONDS = 0.05

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """What a step of the move did: the version it was about, and how many vectors it made."""

    version_id: UUID
    embedded: int
    current: bool


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """A model as a tenant knows it, and how much of its memory has a vector of it."""

    version: ModelVersion
    counts: Counts
    available: bool


def _ignore(done: int, total: int) -> None:
    """Nobody watches."""


async def reembed(
    memory: Memory,
    target: Embedder,
    lineage: Lineage,
    on_progress: OnProgress = _ignore,
    directory: str = "",
) -> ReembedReport:
    """Move a tenant to another model, from the first vector to the last; resumes what was begun."""
    started = await start_reembedding(memory, target, lineage, on_progress, directory)
    if started.current:
        return started
    finished = await finish_reembedding(memory, lineage, on_progress)
    return ReembedReport(finished.version_id, started.embedded + finished.embedded, current=True)


async def reembed_all(
    memory: Memory,
    target: Embedder,
    actor: str,
    on_progress: OnProgress = _ignore,
    directory: str = "",
) -> TenantReports[ReembedReport]:
    """Move every tenant; one that cannot be moved does not keep the others from it."""

    async def move(memory: Memory, lineage: Lineage) -> ReembedReport:
        return await reembed(memory, target, lineage, on_progress, directory)

    return await for_every_tenant(memory, actor, move)


async def start_reembedding(
    memory: Memory,
    target: Embedder,
    lineage: Lineage,
    on_progress: OnProgress = _ignore,
    directory: str = "",
) -> ReembedReport:
    """Lay the target's vectors aside for every memory that has none; searches are not affected.

    For the model already in use this gives a vector to whatever has none.
    """
    version = await _begin(memory, target, lineage, directory)
    work = work_on(memory, lineage, version, on_progress)
    embedded = await embed_missing(work)
    return ReembedReport(version.id, embedded, version.state is VersionState.CURRENT)


async def finish_reembedding(
    memory: Memory, lineage: Lineage, on_progress: OnProgress = _ignore
) -> ReembedReport:
    """Make the model on its way the one in use, once every memory has a vector of it."""
    version = await _version_in(memory, VersionState.BUILDING, lineage)
    if version is None:
        raise NotFound("no other embedding model is on its way; start re-embedding first")
    work = work_on(memory, lineage, version, on_progress)
    return ReembedReport(version.id, await _move(work), current=True)


async def revert_reembedding(
    memory: Memory, lineage: Lineage, on_progress: OnProgress = _ignore
) -> ReembedReport:
    """Call off the move under way, or go back to the model used before it."""
    building = await _version_in(memory, VersionState.BUILDING, lineage)
    if building is not None:
        return await _call_off(memory, building, lineage)
    previous = await _version_in(memory, VersionState.PREVIOUS, lineage)
    if previous is None:
        raise NotFound("there is no embedding model to go back to: its vectors were discarded")
    work = work_on(memory, lineage, previous, on_progress)
    # What was stored since the move has no vector of the old model yet.
    embedded = await embed_missing(work)
    return ReembedReport(previous.id, embedded + await _move(work), current=True)


async def discard_previous(memory: Memory, lineage: Lineage) -> int:
    """Bring the vectors in use home and drop all others: no way back; how many came home."""
    current = await _version_in(memory, VersionState.CURRENT, lineage)
    if current is None:
        return 0
    await embed_missing(work_on(memory, lineage, current, _ignore))
    settled = await _settle(memory, current, lineage)
    async with memory.transaction(lineage) as tx:
        await embeddings.hold(tx)
        await embeddings.leave(tx, was=VersionState.PREVIOUS, state=VersionState.ASIDE)
        for version in await embeddings.find_versions(tx):
            if version.state is VersionState.ASIDE:
                await embeddings.drop_vectors(tx, version_id=version.id)
    return settled


async def reembedding_status(memory: Memory, lineage: Lineage) -> list[VersionStatus]:
    """Every model the tenant knows, newest first, with how far it is."""
    async with memory.transaction(lineage) as tx:
        known = [
            (version, await embeddings.count_vectors(tx, version.id))
            for version in await embeddings.find_versions(tx)
        ]
    return [
        VersionStatus(version, counts, memory.engine_of(version) is not None)
        for version, counts in known
    ]


async def _begin(
    memory: Memory, target: Embedder, lineage: Lineage, directory: str
) -> ModelVersion:
    """The target's version, on its way from now on unless it is already in use."""
    _check_target(memory, target, directory)
    async with memory.transaction(lineage) as tx:
        version_id = await embeddings.register_version(
            tx, memory.new_id(), target, directory, memory.now()
        )
        await embeddings.hold(tx)
        await embeddings.locate(tx, id=version_id, directory=directory)
        versions = {version.id: version for version in await embeddings.find_versions(tx)}
        version = versions.pop(version_id)
        _refuse_second_move(versions.values())
        work_on(memory, lineage, version, _ignore)
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
            f"directory: found {directory!r}; valid is a whole path, which means the same to "
            "every process, or nothing for the installed model"
        )


def _refuse_second_move(others: Iterable[ModelVersion]) -> None:
    for version in others:
        if version.state is VersionState.BUILDING:
            raise Conflict(
                f"a move to {version.name} is under way; finish it or revert it before the next"
            )


async def _version_in(memory: Memory, state: VersionState, lineage: Lineage) -> ModelVersion | None:
    versions = await memory.versions(lineage)
    return next((version for version in versions if version.state is state), None)


async def _move(work: VectorJob) -> int:
    """Make the version the one in use, embedding what was stored meanwhile; how many that were."""
    embedded = 0
    for attempt in range(_TRIES):
        made = await _try_to_move(work)
        if made is not None:
            tenant_id, model = work.lineage.tenant_id, work.version.name
            _log.info("embedding_model_changed", tenant_id=tenant_id, model=model)
            return embedded + made + await _embed_stragglers(work)
        embedded += await embed_missing(work)
        await asyncio.sleep(_PAUSE_SECONDS * attempt)
    raise Unavailable(
        f"memories kept changing while moving to {work.version.name}; nothing is lost, "
        "searches use the old model: try again when less is going on"
    )


async def _try_to_move(work: VectorJob) -> int | None:
    """Move in one transaction, or not at all while more than a few memories have no vector.

    Writers of vectors are held off, so that none can be missed between looking and moving.
    """
    async with work.memory.transaction(work.lineage) as tx:
        await embeddings.hold(tx)
        await refuse_if_changed(work, tx)
        made = 0
        for kind in MemoryType:
            few = await embeddings.find_without(tx, kind, work.version.id, LAST_FEW + 1)
            if len(few) > LAST_FEW or await embed_few(work, tx, kind, few) < len(few):
                return None
            made += len(few)
        await embeddings.leave(tx, was=VersionState.PREVIOUS, state=VersionState.ASIDE)
        await embeddings.leave(tx, was=VersionState.CURRENT, state=VersionState.PREVIOUS)
        await embeddings.enter(tx, id=work.version.id, state=VersionState.CURRENT)
        return made


async def _embed_stragglers(work: VectorJob) -> int:
    """Give a vector to what was embedded before the move and stored after it."""
    current = await _version_in(work.memory, VersionState.CURRENT, work.lineage)
    if current is None or current.id != work.version.id:
        return 0
    return await embed_missing(work_on(work.memory, work.lineage, current, _ignore))


async def _call_off(memory: Memory, building: ModelVersion, lineage: Lineage) -> ReembedReport:
    async with memory.transaction(lineage) as tx:
        await embeddings.hold(tx)
        await embeddings.enter(tx, id=building.id, state=VersionState.ASIDE)
        await embeddings.drop_vectors(tx, version_id=building.id)
    return ReembedReport(building.id, 0, current=False)


async def _settle(memory: Memory, current: ModelVersion, lineage: Lineage) -> int:
    settled = 0
    for kind in MemoryType:
        while True:
            async with memory.transaction(lineage) as tx:
                moved = await embeddings.move_vectors_home(tx, kind, current.id, SETTLED)
            settled += moved
            if not moved:
                break
    return settled
