"""Making the vectors of one model for every memory that has none."""

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

OnProgress = Callable[[int, int], None]
"""Told how many memories have a vector of the version, and how many memories there are."""


@dataclass(frozen=True, slots=True)
class VectorJob:
    """A version to make vectors of, by its embedder, for one tenant."""

    memory: Memory
    lineage: Lineage
    version: ModelVersion
    engine: Embedder
    on_progress: OnProgress


def work_on(
    memory: Memory, lineage: Lineage, version: ModelVersion, on_progress: OnProgress
) -> VectorJob:
    """The work on a version, if its model can be had."""
    engine = memory.engine_of(version)
    if engine is None:
        raise Unavailable(
            f"the embedding model {version.name} cannot be loaded here"
            f"{f' from {version.directory}' if version.directory else ''}; "
            "searches could not use its vectors. Put it there, or name the directory it is in"
        )
    return VectorJob(memory, lineage, version, engine, on_progress)


async def refuse_if_changed(work: VectorJob, tx: Transaction) -> None:
    """Go no further with a version that somebody else moved meanwhile."""
    state = await embeddings.join(tx, work.version.id)
    if state is not work.version.state:
        raise Conflict(
            f"{work.version.name} was {work.version.state} when this began and is {state} now: "
            "somebody else moved to it or called that off; look before starting again"
        )


async def embed_missing(work: VectorJob) -> int:
    """Go once through all memories without a vector of the version; how many got one."""
    async with work.memory.transaction(work.lineage) as tx:
        counts = await embeddings.count_vectors(tx, work.version.id)
    work.on_progress(counts.embedded, counts.memories)
    made = 0
    for kind in MemoryType:
        after = UUID(int=0)
        while batch := await _batch_after(work, kind, after):
            made += await _keep_batch(work, kind, batch)
            after = batch[-1].id
            work.on_progress(min(counts.embedded + made, counts.memories), counts.memories)
    return made


async def _batch_after(work: VectorJob, kind: MemoryType, after: UUID) -> list[Wording]:
    async with work.memory.transaction(work.lineage) as tx:
        return await embeddings.find_without(tx, kind, work.version.id, BATCH, after)


async def _keep_batch(work: VectorJob, kind: MemoryType, batch: list[Wording]) -> int:
    """Embed a batch while no connection is held, then lay its vectors aside."""
    vectors = await work.memory.vectors(work.engine, [wording.text for wording in batch])
    async with work.memory.transaction(work.lineage) as tx:
        await refuse_if_changed(work, tx)
        made = list(zip(batch, vectors, strict=True))
        return await embeddings.keep_vectors(tx, kind, work.version.id, made, work.memory.now())


async def embed_few(work: VectorJob, tx: Transaction, kind: MemoryType, few: list[Wording]) -> int:
    """As many as can be made while others wait, inside a transaction that may hold more."""
    if not few:
        return 0
    vectors = await work.memory.vectors(work.engine, [wording.text for wording in few])
    made = list(zip(few, vectors, strict=True))
    return await embeddings.keep_vectors(tx, kind, work.version.id, made, work.memory.now())
