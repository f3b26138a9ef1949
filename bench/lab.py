"""A memory to measure with: a real embedded PostgreSQL in a temporary directory."""

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.login import login_of
from butlers.db.migrate import migrate
from butlers.db.postgres import Access, Database
from butlers.db.provision import provision
from butlers.embedding import Embedder, get_embedding_engine
from butlers.host.registry import CORE
from butlers.memory.handle import Memory
from butlers.memory.module import MemoryModule

NAME = "butler_bench"


class CachedEmbedder:
    """The real model with its answers kept, so that a run can repeat itself quickly."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str, list[float]] = {}
        self.model, self.version, self.dimensions = inner.model, inner.version, inner.dimensions

    def embed(self, text: str | None) -> list[float]:
        """The vector of a text."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """The vectors of texts, made once each."""
        missing = list(dict.fromkeys(t or " " for t in texts if (t or " ") not in self._known))
        self._known.update(zip(missing, self._inner.embed_batch(missing), strict=True))
        return [self._known[text or " "] for text in texts]

    async def embed_async(self, text: str | None) -> list[float]:
        """The vector of a text."""
        return self.embed(text)

    async def embed_batch_async(self, texts: Sequence[str | None]) -> list[list[float]]:
        """The vectors of texts."""
        return self.embed_batch(texts)


@asynccontextmanager
async def laboratory(
    embedder: Embedder | None = None, kept: Path | None = None
) -> AsyncIterator[tuple[Memory, Access]]:
    """A memory over a database, and the way to that database; gone afterwards, unless kept."""
    with tempfile.TemporaryDirectory(prefix="butlers-bench-") as temporary:
        directory = kept or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        with EmbeddedPostgres(directory / "pg") as server:
            await provision(server.dsn(), NAME, sign_in=True)
            assert MemoryModule.migrations is not None
            await migrate(server.dsn(NAME), [CORE, MemoryModule.migrations])
            access = Access(server.dsn(NAME), server.dsn(NAME, login_of(NAME)))
            database = await Database.open(access)
            engine = embedder or get_embedding_engine()
            try:
                yield Memory(database, lambda: engine, "bench"), access
            finally:
                await database.close()
