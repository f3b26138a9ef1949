"""What a search may show, proved for every way there is to search.

Vectors are compared by reading them all or by the index, words by the text index. Each test stores
memories that match best and may not be shown, then exactly as many worse ones as are asked for: a
way that lost its filter answers with the best, and no other way makes good for it.
"""

import itertools
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from butlers.memory.flows import candidates, forget, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.lifecycle import decay_sweep
from butlers.memory.handle import Memory
from butlers.memory.model import (
    Lineage,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Permanence,
    SearchMode,
)
from conftest import ToyEmbedder, WalkingClock
from db.databases import planning

ASKED = "green tea"
BEST, WORSE = "green tea", "green tea among many other words that few would ever ask for"
BUTLER = "general"
WANTED = 3
VECTOR_WAYS = ["every vector", "vector index"]
KINDS = list(MemoryType)
BY_INDEX = {"enable_seqscan": "off", "enable_sort": "off", "enable_bitmapscan": "off"}


@pytest.fixture(scope="module")
async def indexed_database(worker_access):
    """A database whose planner takes the vector index however few rows there are."""
    async with planning(worker_access, BY_INDEX) as database:
        yield database


@dataclass
class Searcher:
    """One tenant's memory, asked in one way."""

    memory: Memory
    clock: WalkingClock
    lineage: Lineage
    mode: SearchMode
    keys: Iterator[int] = field(default_factory=itertools.count)

    async def store(self, kind: MemoryType, text: str, **more: object) -> str:
        """A memory that says the text, under a key of its own."""
        where = {"scope": more.pop("scope")} if "scope" in more else {}
        lineage = more.pop("lineage", self.lineage)
        if kind is MemoryType.EPISODE:
            new = NewEpisode(text, where.get("scope", BUTLER), **more)
            return str((await remember.store_episode(self.memory, new, lineage)).id)
        if kind is MemoryType.FACT:
            new = NewFact("x", f"key {next(self.keys)}", text, **where, **more)
            return str((await remember.store_fact(self.memory, new, lineage)).id)
        new = NewRule(text, **where, **more)
        return str((await remember.store_rule(self.memory, new, lineage)).id)

    async def forget(self, kind: MemoryType, memory_id: str) -> None:
        assert await forget.forget_memory(self.memory, kind, memory_id, self.lineage)

    async def found(self, limit: int, **query: object) -> list[str]:
        asked = CandidateQuery(ASKED, **{"scope": BUTLER, **query})
        rows = await recall.search_memories(self.memory, asked, self.mode, limit, self.lineage)
        return [row["id"] for row in rows]


@pytest.fixture(params=[*VECTOR_WAYS, "words"])
def searcher(request, memory, clock, lineage, monkeypatch, indexed_database):
    """The three ways to search."""
    if request.param == "vector index":
        monkeypatch.setattr(candidates, "READ_WHOLE", -1)
        memory = replace(memory, database=indexed_database)
    mode = SearchMode.KEYWORD if request.param == "words" else SearchMode.SEMANTIC
    return Searcher(memory, clock, lineage, mode)


Hide = Callable[[Searcher, MemoryType], Awaitable[None]]


async def of_another_tenant(it: Searcher, kind: MemoryType) -> None:
    for _ in range(WANTED):
        await it.store(kind, BEST, lineage=Lineage("rival", "spy"))


async def of_another_scope(it: Searcher, kind: MemoryType) -> None:
    for _ in range(WANTED):
        await it.store(kind, BEST, scope="health")


async def forgotten(it: Searcher, kind: MemoryType) -> None:
    """Retracted, forgotten or expired at once: each kind in its own way."""
    for _ in range(WANTED):
        await it.forget(kind, await it.store(kind, BEST))


async def superseded(it: Searcher, kind: MemoryType) -> None:
    for n in range(WANTED):
        for content in (BEST, "something else by far"):
            await remember.store_fact(it.memory, NewFact("x", f"p{n}", content), it.lineage)


async def past_its_time(it: Searcher, kind: MemoryType) -> None:
    for _ in range(WANTED):
        await it.store(kind, BEST)
    it.clock.advance(days=7)


async def hardly_sure(it: Searcher, kind: MemoryType) -> None:
    """Faded below the threshold with no sweep having looked yet."""
    fast = {"permanence": Permanence.EPHEMERAL} if kind is MemoryType.FACT else {}
    for _ in range(WANTED):
        await it.store(kind, BEST, **fast)
    it.clock.advance(days=400)


async def swept(it: Searcher, kind: MemoryType) -> None:
    """Expired or forgotten by the sweep, which counts however little confidence is asked for."""
    await hardly_sure(it, kind)
    await decay_sweep.run_decay_sweep(it.memory, it.lineage)


HIDDEN: list[tuple[Hide, MemoryType]] = [
    *((of_another_tenant, kind) for kind in KINDS),
    *((of_another_scope, kind) for kind in KINDS),
    *((forgotten, kind) for kind in KINDS),
    (superseded, MemoryType.FACT),
    (past_its_time, MemoryType.EPISODE),
    (hardly_sure, MemoryType.FACT),
    (hardly_sure, MemoryType.RULE),
    (swept, MemoryType.FACT),
    (swept, MemoryType.RULE),
]


@pytest.mark.contract("L15", "R06.1", "R06.2", "R29.2")
@pytest.mark.parametrize(
    ("hide", "kind"), HIDDEN, ids=[f"{kind} {hide.__name__}" for hide, kind in HIDDEN]
)
async def test_what_may_not_be_shown_never_takes_the_place_of_what_may(searcher, hide, kind):
    await hide(searcher, kind)
    shown = {await searcher.store(kind, f"{WORSE} {n}") for n in range(WANTED)}
    # Where confidence is not what hides, it must not help.
    query = {} if hide is hardly_sure else {"min_confidence": 0.0}
    assert set(await searcher.found(WANTED, types=(kind,), **query)) == shown


@pytest.mark.contract("L15", "R07.4")
@pytest.mark.parametrize("kind", KINDS)
async def test_only_the_kinds_asked_for_are_searched(searcher, kind):
    for other in KINDS:
        if other is not kind:
            for _ in range(WANTED):
                await searcher.store(other, BEST)
    shown = {await searcher.store(kind, f"{WORSE} {n}") for n in range(WANTED)}
    assert set(await searcher.found(WANTED, types=(kind,))) == shown


@pytest.mark.contract("L4")
@pytest.mark.parametrize("kind", [MemoryType.FACT, MemoryType.RULE])
async def test_confidence_is_what_is_left_now_and_equal_passes(searcher, owner, kind):
    stored = [await searcher.store(kind, f"{BEST} {n}") for n in range(WANTED)]
    # Just confirmed, so nothing is lost and 0.5 stays 0.5 to the last digit.
    await owner.execute(f"update {kind}s set confidence = 0.5")
    assert set(await searcher.found(WANTED, types=(kind,), min_confidence=0.5)) == set(stored)
    assert await searcher.found(WANTED, types=(kind,), min_confidence=0.5000001) == []
    searcher.clock.advance(days=1)
    assert await searcher.found(WANTED, types=(kind,), min_confidence=0.5) == []


@pytest.mark.contract("R06.1", "R06.2")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_scope_sees_what_is_global_too_but_no_butler_is_global(searcher, kind):
    everywhere = await searcher.store(kind, BEST, scope="global")
    here = await searcher.store(kind, f"{WORSE} here", scope=BUTLER)
    limit = 1 if kind is MemoryType.EPISODE else 2
    expected = {here} if kind is MemoryType.EPISODE else {here, everywhere}
    assert set(await searcher.found(limit, types=(kind,))) == expected


class Successor(ToyEmbedder):
    """Another model that happens to make the very same vectors."""

    version = "2"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("searcher", VECTOR_WAYS, indirect=True)
async def test_vectors_of_another_model_are_never_compared(searcher, kind):
    shown = {await searcher.store(kind, f"{WORSE} {n}") for n in range(WANTED)}
    successor = Successor()
    other = replace(searcher, memory=replace(searcher.memory, embedder=lambda: successor))
    for _ in range(WANTED):
        await other.store(kind, BEST)
    assert set(await searcher.found(WANTED, types=(kind,))) == shown


@pytest.mark.contract("L15")
@pytest.mark.parametrize("hidden", [1, 10, 20])
async def test_however_many_of_the_best_may_not_be_shown_the_next_ones_are_found(searcher, hidden):
    """A few more than wanted are looked up at once, five times as many next, then all that may."""
    for _ in range(hidden):
        await searcher.store(MemoryType.FACT, BEST, scope="health")
    shown = {await searcher.store(MemoryType.FACT, f"{WORSE} {n}") for n in range(WANTED)}
    assert set(await searcher.found(WANTED)) == shown


@pytest.mark.contract("L16")
async def test_the_vector_index_really_serves_the_way_named_after_it(
    memory, clock, lineage, owner, monkeypatch, indexed_database
):
    """Else the tests above would prove one way twice."""
    monkeypatch.setattr(candidates, "READ_WHOLE", -1)
    it = Searcher(replace(memory, database=indexed_database), clock, lineage, SearchMode.SEMANTIC)
    for kind in KINDS:
        await it.store(kind, BEST)
    before = await index_scans(owner)
    assert len(await it.found(1)) == 1
    async with indexed_database._pool.pool.acquire() as connection:
        await connection.execute("select pg_stat_force_next_flush()")
    assert await index_scans(owner) > before


async def index_scans(owner):
    return await owner.fetchval(
        "select idx_scan from pg_stat_user_indexes where indexrelname = 'index_vectors_nearest'"
    )


@pytest.fixture
async def narrow_database(worker_access):
    """A database whose vector index does not go on."""
    narrow = {"hnsw.max_scan_tuples": "1"}
    async with planning(worker_access, BY_INDEX | narrow) as database:
        yield database


@pytest.mark.contract("L15", "L16")
@pytest.mark.parametrize("hidden", [True, False])
async def test_what_the_index_misses_is_found_by_reading_everything(
    memory, clock, lineage, monkeypatch, narrow_database, hidden
):
    """The index sees the best match alone; may that not be shown, it comes back empty."""
    monkeypatch.setattr(candidates, "READ_WHOLE", -1)
    monkeypatch.setattr(candidates, "NEIGHBOURS_ALONE", 1)
    it = Searcher(replace(memory, database=narrow_database), clock, lineage, SearchMode.SEMANTIC)
    if hidden:
        await it.store(MemoryType.FACT, BEST, scope="health")
    shown = {await it.store(MemoryType.FACT, f"{WORSE} {n}") for n in range(WANTED)}
    assert set(await it.found(WANTED)) == shown


@pytest.mark.contract("L16")
async def test_a_small_tenant_is_never_searched_by_index(
    memory, clock, lineage, owner, indexed_database
):
    """However gladly the planner would take it."""
    it = Searcher(replace(memory, database=indexed_database), clock, lineage, SearchMode.SEMANTIC)
    for kind in KINDS:
        await it.store(kind, BEST)
    before = await index_scans(owner)
    assert len(await it.found(1)) == 1
    async with indexed_database._pool.pool.acquire() as connection:
        await connection.execute("select pg_stat_force_next_flush()")
    assert await index_scans(owner) == before
