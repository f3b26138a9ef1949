"""Those who are measured: the product, LangGraph's store and bare pgvector, on one server.

All get the same texts and vectors, and embed a question by the same model at the moment it is
asked. LangGraph comes with the optional dependencies `bench`; without them the others are measured
alone.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol
from uuid import UUID

import asyncpg
from pgvector.asyncpg import register_vector

from bench.speed_load import Note, load
from butlers.db.postgres import Access
from butlers.embedding import EmbeddingEngine
from butlers.memory.flows import candidates, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, NewFact, SearchMode

try:
    from langgraph.store.base import PutOp
    from langgraph.store.postgres import AsyncPostgresStore
except ImportError:
    AsyncPostgresStore = None

LIMIT = 10
PRODUCT, LANGGRAPH, BARE = "butlers", "langgraph", "pgvector"
LANGGRAPH_IS_THERE = AsyncPostgresStore is not None
INSTALL = "python -m pip install -c constraints.txt --no-build-isolation -e '.[bench]'"


class System(Protocol):
    """What can be loaded, asked and told."""

    async def load(self, tenant: str, notes: Sequence[Note]) -> None:
        """Take in facts with their vectors."""

    async def ask(self, tenant: str, question: str) -> None:
        """Answer as in use; this is what is timed."""

    async def rest(self) -> None:
        """Let it finish what it does after an answer, which is not timed."""

    async def nearest(self, tenant: str, question: str) -> set[str]:
        """The texts of the ten that it holds for nearest in meaning."""

    async def store(self, tenant: str, fact: NewFact) -> None:
        """Take in one fact as in use, embedding included."""


class Product:
    """Butlers: a recall embeds, searches by meaning and words, scores and counts the use."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def load(self, tenant: str, notes: Sequence[Note]) -> None:
        """As `bench.speed_load.load`."""
        await load(self._memory, tenant, notes)

    async def ask(self, tenant: str, question: str) -> None:
        """A recall."""
        await recall.recall(self._memory, CandidateQuery(question), LIMIT, Lineage(tenant))

    async def rest(self) -> None:
        """Uses are counted after the answer."""
        await self._memory.uses.settle_all()

    async def nearest(self, tenant: str, question: str) -> set[str]:
        """A semantic search."""
        query = CandidateQuery(question, types=(MemoryType.FACT,))
        found = await recall.search_memories(
            self._memory, query, SearchMode.SEMANTIC, LIMIT, Lineage(tenant)
        )
        return {f"{one['subject']} {one['predicate']} {one['content']}" for one in found}

    async def told(self, tenant: str, question: str, *, whole: bool) -> set[UUID]:
        """What a recall tells; with every vector read, if wanted so."""
        kept = candidates.READ_WHOLE
        candidates.READ_WHOLE = 10**9 if whole else kept
        try:
            found = await recall.recall(
                self._memory, CandidateQuery(question), LIMIT, Lineage(tenant), counted=False
            )
        finally:
            candidates.READ_WHOLE = kept
        return {one.ref.id for one in found}

    async def store(self, tenant: str, fact: NewFact) -> None:
        """One fact."""
        await remember.store_fact(self._memory, fact, Lineage(tenant))


class LangGraph:
    """LangGraph's PostgresStore with its vector index as it comes; a tenant is a namespace."""

    def __init__(self, engine: EmbeddingEngine) -> None:
        self._engine = engine
        self._lent: dict[str, list[float]] = {}

    @asynccontextmanager
    async def opened(self, dsn: str) -> AsyncIterator["LangGraph"]:
        """The store with its tables made."""
        index = {"dims": self._engine.dimensions, "embed": self._embed, "fields": ["text"]}
        async with AsyncPostgresStore.from_conn_string(dsn, index=index) as self._store:
            await self._store.setup()
            yield self

    async def load(self, tenant: str, notes: Sequence[Note]) -> None:
        """A batch of puts whose vectors are known."""
        texts = {str(note.number): note.fact.searchable_text for note in notes}
        self._lent = {note.fact.searchable_text: note.vector.tolist() for note in notes}
        await self._store.abatch(
            [PutOp((tenant,), key, {"text": text}) for key, text in texts.items()]
        )
        self._lent = {}

    async def ask(self, tenant: str, question: str) -> None:
        """A search."""
        await self._store.asearch((tenant,), query=question, limit=LIMIT)

    async def rest(self) -> None:
        """Nothing is left to do."""

    async def nearest(self, tenant: str, question: str) -> set[str]:
        """The same search."""
        found = await self._store.asearch((tenant,), query=question, limit=LIMIT)
        return {one.value["text"] for one in found}

    async def store(self, tenant: str, fact: NewFact) -> None:
        """One put."""
        text = fact.searchable_text
        await self._store.aput((tenant,), text, {"text": text})

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self._lent:
            return [self._lent[text] for text in texts]
        return await self._engine.embed_batch_async(texts)


class Bare:
    """One table with an HNSW index, and the statement that everybody writes."""

    def __init__(self, connection: asyncpg.Connection, engine: EmbeddingEngine) -> None:
        self._connection, self._engine = connection, engine

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Bare"]:
        """The table made."""
        await register_vector(self._connection)
        await self._connection.execute(
            "create table if not exists bare (tenant text not null, text text not null, "
            "embedding vector(384) not null);"
            "create index if not exists bare_nearest on bare "
            "using hnsw (embedding vector_cosine_ops)"
        )
        yield self

    async def load(self, tenant: str, notes: Sequence[Note]) -> None:
        """A COPY."""
        await self._connection.copy_records_to_table(
            "bare", records=[(tenant, note.fact.searchable_text, note.vector) for note in notes]
        )

    async def ask(self, tenant: str, question: str) -> None:
        """The nearest."""
        await self.nearest(tenant, question)

    async def rest(self) -> None:
        """Nothing is left to do."""

    async def nearest(self, tenant: str, question: str) -> set[str]:
        """By the index."""
        rows = await self._connection.fetch(
            "select text from bare where tenant = $2 order by embedding <=> $1 limit $3",
            *await self._engine.embed_batch_async([question]),
            tenant,
            LIMIT,
        )
        return {row["text"] for row in rows}

    async def store(self, tenant: str, fact: NewFact) -> None:
        """One row."""
        text = fact.searchable_text
        (vector,) = await self._engine.embed_batch_async([text])
        await self._connection.execute("insert into bare values ($1, $2, $3)", tenant, text, vector)


@asynccontextmanager
async def systems(
    memory: Memory, access: Access, engine: EmbeddingEngine, *, others: bool
) -> AsyncIterator[dict[str, System]]:
    """Everybody who can be measured, over one database."""
    async with AsyncExitStack() as stack:
        there: dict[str, System] = {PRODUCT: Product(memory)}
        if others and LANGGRAPH_IS_THERE:
            opened = LangGraph(engine).opened(access.owner_dsn)
            there[LANGGRAPH] = await stack.enter_async_context(opened)
        if others:
            connection = await asyncpg.connect(access.owner_dsn)
            stack.push_async_callback(connection.close)
            there[BARE] = await stack.enter_async_context(Bare(connection, engine).opened())
        yield there
