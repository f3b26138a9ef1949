"""Butlers of one process wait for each other's connections; the server never refuses one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import asyncpg
import pytest

from butlers.db.connection_quota import ConnectionQuota
from butlers.db.postgres import Access, Database
from butlers.db.queries import parse
from butlers.errors import Unavailable

NAP = parse("-- nap --\n-- Takes its time.\nselect pg_sleep(:seconds)")["nap"]
OPEN = (
    "select count(*) from pg_stat_activity "
    "where application_name = 'butlers' and datname = current_database()"
)
KILL = OPEN.replace("count(*)", "pg_terminate_backend(pid)")
MOST, POOLS, POOL_MAX = 6, 4, 5


@pytest.fixture
def patience() -> float:
    """How many seconds whoever waits does so."""
    return 60.0


class Crowd:
    """Pools that could open far more connections than their quota has."""

    def __init__(self, databases: list[Database], before: int) -> None:
        self.databases, self._before = databases, before
        self.ended: list[int] = []

    async def nap(self, place: int, seconds: float = 0.01) -> None:
        await self.databases[place].fetch(NAP, seconds=seconds)
        self.ended.append(place)

    async def open(self, owner: asyncpg.Connection) -> int:
        """How many connections all of them have."""
        return int(await owner.fetchval(OPEN)) - self._before


@pytest.fixture
async def crowd(
    worker_access: Access, owner: asyncpg.Connection, patience: float
) -> AsyncIterator[Crowd]:
    before, quota = await owner.fetchval(OPEN), ConnectionQuota(MOST, POOLS)
    databases = [
        await Database.open(worker_access, pool_max=POOL_MAX, timeout=patience, quota=quota)
        for _ in range(POOLS)
    ]
    yield Crowd(databases, before)
    for database in databases:
        await database.close()


async def test_however_busy_all_are_no_more_are_open_than_the_share_has(
    crowd: Crowd, owner: asyncpg.Connection
) -> None:
    asked = asyncio.gather(*(crowd.nap(number % POOLS) for number in range(120)))
    most = 0
    while not asked.done():
        seen = await crowd.open(owner)
        await asyncio.sleep(0.005)
        # One that was just closed is told of for a moment.
        most = max(most, min(seen, await crowd.open(owner)))
    assert most <= MOST
    assert sorted(crowd.ended) == sorted(number % POOLS for number in range(120))
    assert await crowd.open(owner) <= MOST // 3


async def test_whoever_asks_much_keeps_no_other_waiting(crowd: Crowd) -> None:
    many = [asyncio.create_task(crowd.nap(0)) for _ in range(100)]
    await asyncio.sleep(0.02)
    await crowd.nap(1)
    assert crowd.ended.count(0) < 30
    await asyncio.gather(*many)


@pytest.mark.parametrize("patience", [2.0])
async def test_whoever_waited_too_long_is_told_what_to_do(crowd: Crowd, patience: float) -> None:
    async with AsyncExitStack() as held:
        for database in crowd.databases:
            await held.enter_async_context(database.system_transaction())
        with pytest.raises(Unavailable, match=r"within 2 seconds.*raise database\.connections"):
            await crowd.nap(0)
    await crowd.nap(0)


async def test_connections_that_were_cut_no_longer_count(
    crowd: Crowd, owner: asyncpg.Connection
) -> None:
    await asyncio.gather(*(crowd.nap(place) for place in range(POOLS)))
    quota = crowd.databases[0]._pool.quota
    assert quota.open == await crowd.open(owner) > 0
    await owner.fetch(KILL)
    async with asyncio.timeout(5):
        while quota.open:
            await asyncio.sleep(0.01)
    await crowd.nap(0)


async def test_a_pool_that_cannot_be_opened_takes_no_part_of_it(worker_access: Access) -> None:
    quota = ConnectionQuota(MOST)
    for _ in range(3):
        with pytest.raises(Unavailable):
            nowhere = Access(worker_access.owner_dsn, "postgresql://127.0.0.1:1/nothing")
            await Database.open(nowhere, pool_max=POOL_MAX, quota=quota)
    assert not quota.wanted
