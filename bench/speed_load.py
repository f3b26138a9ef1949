"""Stores to measure: which there are, what is in them, and how it gets there.

What a tenant knows is stored by the product's own flow, many facts a transaction. Only vectors
are lent: beyond the first texts, which the model embeds, they are mixed from those of others. A
thousand tenants are a few, each copied row by row under other names, whatever tables that takes.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import numpy as np
from numpy.typing import NDArray

from bench.speed_texts import SUBJECTS, fact
from butlers.embedding import EmbeddingEngine
from butlers.memory.flows import remember
from butlers.memory.handle import Embedding, Memory
from butlers.memory.model import Lineage, NewFact

EMBEDDED = 10_000
FACTS_EACH = 1_000
_DISTINCT = 20
_BATCH = 500
_COMPARED = 20_000
# Names as tokens may have them: without blanks.
_COPY = "-as-"
_MADE_LATER = """
    select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition
    from pg_index join pg_class on pg_class.oid = indexrelid join pg_am on pg_am.oid = relam
    where amname in ('hnsw', 'gin') order by name
"""
_OF_TENANTS = """
    select columns.table_name, column_name, udt_name
    from information_schema.columns join information_schema.tables using (table_schema, table_name)
    where table_schema = 'public' and table_type = 'BASE TABLE' and is_generated = 'NEVER'
      and table_name in (
        select table_name from information_schema.columns
        where table_schema = 'public' and column_name = 'tenant_id'
      )
    order by table_name, ordinal_position
"""


@dataclass(frozen=True)
class Note:
    """A fact with the number it is made from and the vector it is stored with."""

    number: int
    fact: NewFact
    vector: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Store:
    """A database to measure: who is in it with which facts, and which tenants are asked."""

    name: str
    tenants: dict[str, range]
    asked: tuple[str, ...]
    is_crowd: bool = False

    @property
    def last(self) -> int:
        """Where the numbers of all its facts end."""
        return max(numbers.stop for numbers in self.tenants.values())

    def facts_of(self, tenant: str) -> range:
        """The numbers of a tenant's facts; a copy has those of its original."""
        return self.tenants[tenant.partition(_COPY)[0]]


def alone(size: int) -> Store:
    """One tenant who has all there is."""
    return Store(f"{size:,}", {"measured": range(size)}, ("measured",))


def share(size: int) -> Store:
    """A tenant who has a hundredth of all there is."""
    own = max(size // 100, 1)
    held = {"measured": range(own), "another": range(own, size)}
    return Store(f"{own:,} of {size:,}", held, ("measured",))


def crowd(tenants: int) -> Store:
    """Many tenants with as many facts each, asked in turn; only the product holds these."""
    distinct = min(tenants, _DISTINCT)
    held = {
        f"tenant-{one}": range(one * FACTS_EACH, (one + 1) * FACTS_EACH) for one in range(distinct)
    }
    asked = list(held)
    asked += [f"tenant-{one % distinct}{_COPY}{one}" for one in range(distinct, tenants)]
    return Store(f"{tenants:,} x {FACTS_EACH:,}", held, tuple(asked), is_crowd=True)


class Vectors:
    """The vectors of facts by their numbers."""

    def __init__(self, engine: EmbeddingEngine, most: int, kept: Path | None = None) -> None:
        count = min(most, EMBEDDED)
        texts = [fact(number).searchable_text for number in range(count)]
        file = kept / "vectors.npy" if kept else None
        known = np.load(file) if file and file.exists() else np.empty((0, engine.dimensions))
        last = np.array(engine.embed(texts[-1]))
        if len(known) < count or not np.allclose(known[count - 1], last, atol=1e-5):
            known = np.array(engine.embed_batch(texts), dtype=np.float32)
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                np.save(file, known)
        self._real = known[:count]

    def __len__(self) -> int:
        return len(self._real)

    def of(self, numbers: Sequence[int]) -> NDArray[np.float32]:
        """A row for each: the model's, or one near to those of two of the subject and a third."""
        asked = np.array(numbers)
        count = len(self._real)
        turn, first = np.divmod(asked, count)
        second = (first + len(SUBJECTS) * (1 + 7 * turn)) % count
        third = (31 * first + 17 * turn + 1) % count
        mixed = self._real[first] + 0.7 * self._real[second] + 0.7 * self._real[third]
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        return np.where((asked < count)[:, None], self._real[first], mixed)

    def nearest(self, numbers: range, asked: Sequence[float], limit: int) -> list[int]:
        """Those nearest to a vector, every one compared, some at a time: a million are large."""
        best: list[tuple[float, int]] = []
        for start in range(0, len(numbers), _COMPARED):
            some = numbers[start : start + _COMPARED]
            nearness = self.of(some) @ np.array(asked, dtype=np.float32)
            best += [(float(nearness[n]), some[n]) for n in np.argsort(-nearness)[:limit]]
        return [number for _, number in sorted(best, reverse=True)[:limit]]

    def notes(self, numbers: range) -> Iterator[list[Note]]:
        """Facts with their vectors, some at a time."""
        for start in range(0, len(numbers), _BATCH):
            some = numbers[start : start + _BATCH]
            yield [Note(n, fact(n), v) for n, v in zip(some, self.of(some), strict=True)]


async def load(memory: Memory, tenant: str, notes: Sequence[Note]) -> None:
    """Store facts as the product does, but for the vectors, which are given."""
    lineage = Lineage(tenant)
    version = (await memory.embed([" "], lineage))[0].version_id
    async with memory.begin(lineage) as work:
        for note in notes:
            embedding = Embedding(note.vector.tolist(), version)
            await remember.store_fact_in(work, note.fact, embedding)


async def copy_tenants(owner: asyncpg.Connection, store: Store) -> None:
    """Fill up the crowd: every row of a tenant again under other names, ids changed alike."""
    tables: dict[str, dict[str, str]] = {}
    for row in await owner.fetch(_OF_TENANTS):
        tables.setdefault(row["table_name"], {})[row["column_name"]] = row["udt_name"]
    async with owner.transaction():
        # Rows that were whole are whole as copies: neither order nor triggers matter.
        await owner.execute("set local session_replication_role = replica")
        for tenant in store.tenants:
            names = [name for name in store.asked if name.startswith(f"{tenant}{_COPY}")]
            for table, columns in tables.items():
                await owner.execute(_copying(table, columns), tenant, names)


@asynccontextmanager
async def indexes_made_later(owner: asyncpg.Connection) -> AsyncIterator[None]:
    """Indexes that are slow to keep while loading are made once everything is there."""
    indexes = await owner.fetch(_MADE_LATER)
    for index in indexes:
        await owner.execute(f"drop index {index['name']}")
    yield
    await owner.execute("set maintenance_work_mem = '4GB'")
    for index in indexes:
        await owner.execute(index["definition"])
    await owner.execute("vacuum analyze")
    await owner.execute("checkpoint")


def _copying(table: str, columns: dict[str, str]) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    values = ", ".join(_copied(column, kind) for column, kind in columns.items())
    return (
        f'insert into "{table}" ({names}) overriding system value select {values} '
        f'from "{table}" cross join unnest($2::text[]) as copies (copy) where tenant_id = $1'
    )


def _copied(column: str, kind: str) -> str:
    if column == "tenant_id":
        return "copy"
    return f'md5("{column}"::text || copy)::uuid' if kind == "uuid" else f'"{column}"'
