"""How long recalling and storing take as a memory grows, beside LangGraph's store and pgvector.

    python -m bench speed [--sizes 1000 10000 100000] [--tenants 1000] [--questions 100]
      [--keep DIRECTORY]        1000000 is a size as well, and takes an hour to load

Stores of realistic texts (see `speed_texts`): one tenant who has all facts, at each size; one who
has a hundredth of the largest; and many tenants of 1,000 facts each, asked in turn. Each store is a
PostgreSQL of its own with all systems in it, but for a million: only the product has those. All are
loaded first; then every question is asked in
every store and of every system before the next one is, so that what disturbs the machine disturbs
all alike. Times are of whole calls, the question's embedding included.

Times depend on the machine, so only ratios within the run are judged. The vectors of the first
10,000 texts are the model's, those of the others are mixed from them.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from bench.lab import laboratory
from bench.speed_bulk import FIRST, QUICKLY, load_many
from bench.speed_load import Store, Vectors, alone, copy_tenants, crowd, indexes_made_later, share
from bench.speed_report import Times, report
from bench.speed_systems import (
    INSTALL,
    LANGGRAPH_IS_THERE,
    LIMIT,
    PRODUCT,
    Product,
    System,
    systems,
)
from bench.speed_texts import fact, question
from butlers.db.postgres import Access
from butlers.embedding import EmbeddingEngine, get_embedding_engine
from butlers.memory.flows import candidates

# As many questions as it takes until a store that was kept is in memory as one just loaded is: at a
# million, those that come after are answered in half the time of the first sixty.
_WARM_UP, _COUNTED = 150, 10
# No store has as many facts: from here on are those that are stored to see how long it takes,
# others each time, since a store may be kept.
_FIRST_NEW = 2_000_000 + int(time.time()) % 1_000_000
_WHOLE, _NEWCOMER = "whole", "newcomer"
# The most facts that the others are loaded with.
_MOST_OF_OTHERS = 100_000


@dataclass
class Loaded:
    """A store with its systems in it, and what was measured of them so far."""

    store: Store
    there: dict[str, System]
    times: dict[str, Times]

    def tenant(self, number: int) -> str:
        """Whom a question is asked for."""
        return self.store.asked[number * 7 % len(self.store.asked)]

    def question(self, number: int) -> str:
        """One that no other store is asked, since a text embedded lately is not embedded anew."""
        facts = self.store.facts_of(self.tenant(number))
        return question(f"{self.store.name} {number}", facts[number * 37 % len(facts)])

    def in_turn(self, number: int) -> list[str]:
        """All systems, each time another first."""
        names = list(self.there)
        first = number % len(names)
        return names[first:] + names[:first]


def main(arguments: Sequence[str]) -> int:
    """Measure, print a table, and fail where a ratio does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench speed", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--tenants", type=int, default=1_000, help="0 leaves them out")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="keep vectors and stores here, for next time")
    options = parser.parse_args(arguments)
    stores = [*map(alone, options.sizes), share(min(max(options.sizes), _MOST_OF_OTHERS))]
    stores += [crowd(options.tenants)] if options.tenants else []
    if not LANGGRAPH_IS_THERE:
        print(f"LangGraph's store is not installed and not measured; to have it: {INSTALL}")
    engine, started = get_embedding_engine(), time.perf_counter()
    vectors = Vectors(engine, max(store.last for store in stores), options.keep)
    print(f"embedded {len(vectors):,} texts: {time.perf_counter() - started:.0f} s", flush=True)
    return asyncio.run(_measure(stores, engine, vectors, options))


async def _measure(
    stores: Sequence[Store], engine: EmbeddingEngine, vectors: Vectors, options: argparse.Namespace
) -> int:
    questions: int = options.questions
    async with AsyncExitStack() as stack:
        loaded = [await _loaded(stack, store, engine, vectors, options.keep) for store in stores]
        await _ask(loaded, questions)
        for one in loaded:
            await _count_statements(one, questions)
            await _compare(one, engine, vectors, questions)
        await _store(loaded, max(questions // 2, 1))
    return report({one.store: one.times for one in loaded})


async def _loaded(
    stack: AsyncExitStack,
    store: Store,
    engine: EmbeddingEngine,
    vectors: Vectors,
    keep: Path | None,
) -> Loaded:
    """A store with its facts in it, unless it was kept; how long that took is said."""
    kept = keep / store.name if keep else None
    memory, access = await stack.enter_async_context(laboratory(engine, kept))
    others = not store.is_crowd and store.last <= _MOST_OF_OTHERS
    opening = systems(memory, access, engine, others=others)
    there = await stack.enter_async_context(opening)
    if kept is None or not (kept / _WHOLE).exists():
        await _load(store, there, access, vectors)
    if kept:
        (kept / _WHOLE).touch()
    return Loaded(store, there, {name: Times() for name in there})


async def _load(store: Store, there: dict[str, System], access: Access, vectors: Vectors) -> None:
    owner = await asyncpg.connect(access.owner_dsn)
    started = time.perf_counter()
    try:
        async with indexes_made_later(owner):
            spent = {
                name: await _timed(_fill(one, store, vectors, owner)) for name, one in there.items()
            }
            spent["copying"] = await _timed(copy_tenants(owner, store))
    finally:
        await owner.close()
    spent["indexes"] = time.perf_counter() - started - sum(spent.values())
    told = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in spent.items())
    print(f"loaded {store.name}: {told}", flush=True)


async def _fill(system: System, store: Store, vectors: Vectors, owner: asyncpg.Connection) -> None:
    for tenant, numbers in store.tenants.items():
        quickly = isinstance(system, Product) and len(numbers) > QUICKLY
        told = numbers[:FIRST] if quickly else numbers
        for notes in vectors.notes(told):
            await system.load(tenant, notes)
        if len(told) < len(numbers):
            await load_many(owner, tenant, vectors, numbers[FIRST:])


async def _ask(loaded: Sequence[Loaded], questions: int) -> None:
    for number in range(-_WARM_UP, questions):
        for one in loaded:
            tenant, text = one.tenant(number), one.question(number)
            for name in one.in_turn(number):
                seconds = await _timed(one.there[name].ask(tenant, text))
                await one.there[name].rest()
                if number >= 0:
                    one.times[name].asked.append(seconds)


async def _store(loaded: Sequence[Loaded], facts: int) -> None:
    """For somebody else, since a store that is kept must stay what it is."""
    for number in range(facts):
        new = fact(_FIRST_NEW + number)
        for one in loaded:
            for name in one.in_turn(number):
                seconds = await _timed(one.there[name].store(_NEWCOMER, new))
                one.times[name].stored.append(seconds)


async def _count_statements(one: Loaded, first: int) -> None:
    """How many statements a recall sends to the server before it answers."""
    product, before_answering = one.there[PRODUCT], 0
    with _counting() as sent:
        for number in range(first, first + _COUNTED):
            already = len(sent)
            await product.ask(one.tenant(number), one.question(number))
            before_answering += len(sent) - already
            await product.rest()
    one.times[PRODUCT].statements = before_answering / _COUNTED


async def _compare(one: Loaded, engine: EmbeddingEngine, vectors: Vectors, questions: int) -> None:
    """How many of the ten that are nearest each system finds; which those are, arithmetic says.

    And, of a tenant too large to be read whole, how many of a recall's ten are those of one who is.
    """
    for number in range(questions):
        tenant, text = one.tenant(number), one.question(number)
        numbers = one.store.facts_of(tenant)
        nearest = vectors.nearest(numbers, engine.embed(text), LIMIT)
        exact = {fact(nearby).searchable_text for nearby in nearest}
        for name, system in one.there.items():
            found = await system.nearest(tenant, text)
            one.times[name].found.append(len(exact & found) / len(exact))
        product = one.there[PRODUCT]
        if isinstance(product, Product) and len(numbers) > candidates.READ_WHOLE:
            told = await product.told(tenant, text, whole=False)
            wanted = await product.told(tenant, text, whole=True)
            share = len(told & wanted) / len(wanted) if wanted else float(not told)
            one.times[PRODUCT].same.append(share)


@contextmanager
def _counting() -> Iterator[list[str]]:
    """The name of every method that sends a statement, as often as it is called."""
    names = ("fetch", "fetchrow", "fetchval", "fetchmany", "execute", "executemany")
    kept = {name: getattr(asyncpg.Connection, name) for name in names}
    sent: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            sent.append(name)
            return kept[name](*arguments, **named)

        return call

    for name in names:
        setattr(asyncpg.Connection, name, counted(name))
    try:
        yield sent
    finally:
        for name, method in kept.items():
            setattr(asyncpg.Connection, name, method)


async def _timed(call: Awaitable[object]) -> float:
    started = time.perf_counter()
    await call
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
