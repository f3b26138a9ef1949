"""How long remembering and recalling take as a memory grows, and what an index costs in recall.

    python -m bench speed [--sizes 1000 10000 100000] [--queries 60]

Facts are real sentences embedded by the real model, multiplied with noise into clusters. Each
size is measured twice: as one tenant's whole table, and as a tenant that owns one row in a
hundred. Times depend on the machine, so only ratios within the run are judged: recall@10 of the
semantic search against an exact scan (at least 0.99), and the time of a whole recall against its
own SQL and embedding (at most 30 % more).
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
from pgvector.asyncpg import register_vector

from bench.lab import laboratory
from butlers.memory.flows import recall, remember
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryType, NewFact, SearchMode

LEAST_RECALL = 0.99
MOST_OVERHEAD = 0.30
_WORDS = """
Ann Bob Cem Dora Emil Fay Gus Hana Ivo June Kofi Lena Milo Nora Omar Pia
likes, worries about, asked for, has finished, sold, talks of, wants, postponed
green tea, the night train to Lisbon, an allergy to peanuts, a red bicycle, the tax return, \
her sister's wedding, a flat near the harbour, the piano lessons, chess on Sundays, a boiler, \
the dentist in May, work at the library, a blue parrot, the quarterly report, running shoes, \
the garden fence, a sourdough starter, the Kubernetes migration, Portuguese classes, jazz records
"""
_people, _verbs, _things = _WORDS.strip().splitlines()
_PEOPLE, _VERBS, _THINGS = _people.split(), _verbs.split(", "), _things.split(", ")


@dataclass
class Clock:
    """Time spent in the database and in the model during a measurement."""

    seconds: float = 0.0
    samples: list[float] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    """Measure every size, print a table, and fail where a ratio does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench speed", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--queries", type=int, default=60)
    options = parser.parse_args(arguments)
    return asyncio.run(_measure_all(options.sizes, options.queries))


async def _measure_all(sizes: Sequence[int], queries: int) -> int:
    print(
        f"{'rows':>7} {'tenant':>7} {'exact p50':>10} {'recall p50':>11} {'p95':>7} "
        f"{'store p50':>10} {'p95':>7} {'recall@10':>10} {'overhead':>9}    (times in ms)"
    )
    failures = 0
    for size in sizes:
        for share in (1.0, 0.01):
            failures += await _measure(size, share, queries)
    return 1 if failures else 0


async def _measure(size: int, share: float, queries: int) -> int:
    async with laboratory() as (memory, access):
        owner = await asyncpg.connect(access.owner_dsn)
        await register_vector(owner)
        try:
            await _fill(memory, owner, size, share)
            return await _report(memory, owner, size, share, queries)
        finally:
            await owner.close()


async def _report(
    memory: Memory, owner: asyncpg.Connection, size: int, share: float, queries: int
) -> int:
    lineage = Lineage("measured")
    asked = [_question(number) for number in range(queries)]
    for text in asked[:5]:
        await recall.recall(memory, recall.Query(text), 10, lineage)
    exact_times, agreement = [], []
    for text in asked:
        vector = memory.embedder().embed(text)
        exact, seconds = await _timed(lambda v=vector: _exact(owner, v))
        exact_times.append(seconds)
        query = recall.Query(text, types=(MemoryType.FACT,))
        found = await recall.search_memories(memory, query, SearchMode.SEMANTIC, 10, lineage)
        agreement.append(len(exact & {UUID(one["id"]) for one in found}) / len(exact))
    # Other words than before: a question just asked is not embedded anew.
    recalls, overhead = await _recalls(memory, [f"Again: {text}" for text in asked], lineage)
    stores = await _stores(memory, lineage)
    agreed = statistics.mean(agreement)
    print(
        f"{size:>7} {int(size * share):>7} {_ms(exact_times, 50):>10} {_ms(recalls, 50):>11} "
        f"{_ms(recalls, 95):>7} {_ms(stores, 50):>10} {_ms(stores, 95):>7} {agreed:>10.3f} "
        f"{overhead:>8.0%}",
        flush=True,
    )
    return (agreed < LEAST_RECALL) + (overhead > MOST_OVERHEAD)


async def _recalls(
    memory: Memory, asked: Sequence[str], lineage: Lineage
) -> tuple[list[float], float]:
    """How long recalls take, and how much more than their own SQL and embedding."""
    times, inside = [], Clock()
    with (
        _timing(asyncpg.Connection, ("fetch", "fetchrow", "fetchval", "execute"), inside),
        _timing(type(memory.embedder()), ("embed_async", "embed_batch_async"), inside),
    ):
        for text in asked:
            _, seconds = await _timed(
                lambda t=text: recall.recall(memory, recall.Query(t), 10, lineage)
            )
            times.append(seconds)
    return times, sum(times) / inside.seconds - 1


async def _stores(memory: Memory, lineage: Lineage) -> list[float]:
    times = []
    for number in range(40):
        new = NewFact("bench", f"store {number}", f"{_question(number)} is stored")
        times.append((await _timed(lambda n=new: remember.store_fact(memory, n, lineage)))[1])
    return times


async def _exact(owner: asyncpg.Connection, vector: Sequence[float]) -> set[UUID]:
    """The ten nearest by a bare scan of the whole table."""
    async with owner.transaction():
        await owner.execute("set local enable_indexscan = off")
        rows = await owner.fetch(
            "select id from facts where tenant_id = 'measured' and validity = 'active' "
            "order by embedding <=> $1 limit 10",
            vector,
        )
    return {row["id"] for row in rows}


async def _fill(memory: Memory, owner: asyncpg.Connection, size: int, share: float) -> None:
    """Rows of the measured tenant and of others, loaded before the index is built."""
    texts = [_sentence(number) for number in range(min(size, 2_000))]
    vectors = np.array(memory.embedder().embed_batch([" ".join(text) for text in texts]))
    chance = np.random.default_rng(7)
    versions = {
        tenant: (await memory.embed(" ", Lineage(tenant))).version_id
        for tenant in ("measured", "others")
    }
    index = await owner.fetchval("select pg_get_indexdef('facts_embedding'::regclass)")
    await owner.execute("drop index facts_embedding")
    own = int(size * share)
    rows = (
        _row(number, texts, vectors, chance, "measured" if number < own else "others", versions)
        for number in range(size)
    )
    while batch := [row for _, row in zip(range(5_000), rows, strict=False)]:
        await owner.executemany(_INSERT, batch)
    await owner.execute("set maintenance_work_mem = '1GB'")
    await owner.execute(index)
    await owner.execute("vacuum analyze facts")


_INSERT = """
    insert into facts (id, tenant_id, subject, predicate, content, embedding,
      embedding_version_id, search_vector, last_confirmed_at)
    values (gen_random_uuid(), $1, $2, $3, $4, $5, $6,
      to_tsvector('english', $2 || ' ' || $4), now())
"""


def _row(
    number: int, texts: Sequence[Any], vectors: Any, chance: Any, tenant: str, versions: Any
) -> tuple[Any, ...]:
    subject, verb, thing = texts[number % len(texts)]
    noisy = vectors[number % len(texts)] + chance.normal(0, 0.02, vectors.shape[1])
    vector = noisy / np.linalg.norm(noisy)
    return (tenant, subject, f"{verb} {number}", thing, vector, versions[tenant])


def _sentence(number: int) -> tuple[str, str, str]:
    person = _PEOPLE[number % len(_PEOPLE)]
    verb = _VERBS[number // 16 % len(_VERBS)]
    thing = _THINGS[number // 128 % len(_THINGS)]
    return f"{person} {number % 97}", verb, f"{thing} (note {number})"


def _question(number: int) -> str:
    person, thing = _PEOPLE[number % len(_PEOPLE)], _THINGS[number * 7 % len(_THINGS)]
    return f"What did {person} say about {thing}?"


async def _timed(call: Callable[[], Awaitable[Any]]) -> tuple[Any, float]:
    started = time.perf_counter()
    return await call(), time.perf_counter() - started


@contextmanager
def _timing(owner: type, names: Sequence[str], clock: Clock) -> Iterator[None]:
    """Count the time spent in methods of a class."""
    kept = {name: getattr(owner, name) for name in names}

    def timed(inner: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return await inner(*arguments, **named)
            finally:
                clock.seconds += time.perf_counter() - started

        return call

    for name, inner in kept.items():
        setattr(owner, name, timed(inner))
    try:
        yield
    finally:
        for name, inner in kept.items():
            setattr(owner, name, inner)


def _ms(samples: Sequence[float], percentile: int) -> str:
    return f"{np.percentile(samples, percentile) * 1000:.1f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
