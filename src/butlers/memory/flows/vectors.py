"""Make the vectors of one model for every memory that has none."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.embedding import Embedder
from butlers.errors import Conflict, Unavailable
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType
from butlers.memory.store import embeddings
from butlers.memory.store.embeddings import ModelVersion, Wording

BATCH = 64
"""Memories embedded at a time."""
SETTLED = 500
"""Vectors moved into the rows of their memories in one transaction."""

OnProgress = Callable[[int, int], None]
"""Called with the number of memories that have a vector of the version, and of all memories."""


def ignore_progress(done: int, total: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class VectorJob:
    """A model version to make vectors of, by its embedder, for one tenant."""

    memory: Memory
    lineage: Lineage
    version: ModelVersion
    engine: Embedder
    on_progress: OnProgress


def vector_job(
    memory: Memory, lineage: Lineage, version: ModelVersion, on_progress: OnProgress
) -> VectorJob:
    """Return the job of a version; raise Unavailable if its model cannot be loaded."""
    engine = memory.engine_of(version)
    if engine is None:
        raise Unavailable(
            f"the embedding model {version.name} cannot be loaded here"
            f"{f' from {version.directory}' if version.directory else ''}; "
            "without it, searches cannot use its vectors. Put it there, or name its directory"
        )
    return VectorJob(memory, lineage, version, engine, on_progress)


async def refuse_if_changed(job: VectorJob, tx: Transaction) -> None:
    """Raise Conflict if somebody else changed the version's state meanwhile; lock the version."""
    state = await embeddings.join(tx, job.version.id)
    if state is not job.version.state:
        raise Conflict(
            f"{job.version.name} was {job.version.state} when this began and is {state} now: "
            "another process activated or cancelled it; check `butlers models reembed` first"
        )


async def embed_missing(job: VectorJob) -> int:
    """Embed every memory without a vector of the version, in batches; return how many."""
    async with job.memory.transaction(job.lineage) as tx:
        counts = await embeddings.count_vectors(tx, job.version.id)
    job.on_progress(counts.embedded, counts.memories)
    made = 0
    for kind in MemoryType:
        after = UUID(int=0)
        while batch := await _batch_after(job, kind, after):
            made += await _embed_batch(job, kind, batch)
            after = batch[-1].id
            job.on_progress(min(counts.embedded + made, counts.memories), counts.memories)
    return made


async def embed_few(job: VectorJob, tx: Transaction, kind: MemoryType, few: list[Wording]) -> int:
    """Embed a few memories inside a transaction, while others wait; return how many."""
    if not few:
        return 0
    vectors, now = await _embed(job, few), job.memory.now()
    return await embeddings.keep_vectors(tx, kind, job.version.id, vectors, now)


async def move_into_rows(
    memory: Memory, version: ModelVersion, lineage: Lineage, *, only_empty: bool = False
) -> int:
    """Move the vectors of a version into the rows of their memories; return how many.

    `only_empty`: of memories whose row has no vector.
    """
    total = 0
    for kind in MemoryType:
        moved = 1
        while moved:
            async with memory.transaction(lineage) as tx:
                moved = await embeddings.move_vectors_home(
                    tx, kind, version.id, SETTLED, only_empty=only_empty
                )
            total += moved
    return total


async def _batch_after(job: VectorJob, kind: MemoryType, after: UUID) -> list[Wording]:
    async with job.memory.transaction(job.lineage) as tx:
        return await embeddings.find_without(tx, kind, job.version.id, BATCH, after)


async def _embed_batch(job: VectorJob, kind: MemoryType, batch: list[Wording]) -> int:
    vectors = await _embed(job, batch)  # while no connection is held
    async with job.memory.transaction(job.lineage) as tx:
        await refuse_if_changed(job, tx)
        return await embeddings.keep_vectors(tx, kind, job.version.id, vectors, job.memory.now())


async def _embed(job: VectorJob, batch: list[Wording]) -> list[tuple[Wording, list[float]]]:
    vectors = await job.memory.vectors(job.engine, [wording.text for wording in batch])
    return list(zip(batch, vectors, strict=True))
