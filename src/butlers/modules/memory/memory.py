"""The handle every flow is given: database, embedder, settings, clock and ids in one place."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from butlers.clock import Clock, utc_now
from butlers.db.postgres import Database, Transaction
from butlers.embedding import Embedder
from butlers.errors import Unavailable
from butlers.ids import NewId, new_id
from butlers.modules.memory.model import Lineage
from butlers.modules.memory.settings import MemoryModuleConfig
from butlers.modules.memory.store import embeddings


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector and the registered version of the model that made it."""

    vector: list[float]
    version_id: UUID


@dataclass(slots=True)
class Memory:
    """One butler's memory; flows are functions that take it first."""

    database: Database
    embedder: Callable[[], Embedder]
    butler: str
    settings: MemoryModuleConfig = field(default_factory=MemoryModuleConfig)
    clock: Clock = utc_now
    new_id: NewId = new_id
    _versions: dict[str, UUID] = field(default_factory=dict)

    def now(self) -> datetime:
        """This instant."""
        return self.clock()

    @asynccontextmanager
    async def transaction(self, lineage: Lineage) -> AsyncIterator[Transaction]:
        """One transaction in which only the caller's tenant exists."""
        async with self.database.transaction(lineage.tenant_id) as tx:
            yield tx

    async def embed(self, text: str, lineage: Lineage) -> Embedding:
        """The vector of a text, made before any connection is taken."""
        return (await self.embed_all([text], lineage))[0]

    async def embed_all(self, texts: Sequence[str], lineage: Lineage) -> list[Embedding]:
        """The vectors of several texts."""
        vectors = await self.embed_query(texts)
        version = await self.embedding_version(lineage)
        return [Embedding(vector, version) for vector in vectors]

    async def embed_query(self, texts: Sequence[str]) -> list[list[float]]:
        """Bare vectors, for searching."""
        engine = self.embedder()
        vectors = await engine.embed_batch_async(list(texts))
        if vectors and len(vectors[0]) != self.settings.embedding_dimensions:
            raise Unavailable(
                f"the embedding model makes {len(vectors[0])} dimensions; "
                f"modules.memory.embedding_dimensions says {self.settings.embedding_dimensions}"
            )
        return vectors

    async def embedding_version(self, lineage: Lineage) -> UUID:
        """The registered version of the model in use, registered for this tenant if it is new."""
        known = self._versions.get(lineage.tenant_id)
        if known is not None:
            return known
        engine = self.embedder()
        async with self.transaction(lineage) as tx:
            version = await embeddings.register_version(tx, self.new_id(), engine, self.now())
        self._versions[lineage.tenant_id] = version
        return version

    async def known_version(self, tx: Transaction) -> UUID | None:
        """The version to search by; None for a tenant that never stored a vector of this model."""
        known = self._versions.get(tx.tenant_id)
        if known is None:
            known = await embeddings.get_version(tx, self.embedder())
            if known is not None:
                self._versions[tx.tenant_id] = known
        return known
