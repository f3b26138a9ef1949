"""A primary and its standby: what is read from where, and that nothing kept is lost with one."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from butlers.db.address import maintenance_url
from butlers.db.login import own_login
from butlers.db.migrate import migrate
from butlers.db.postgres import Access, Database
from butlers.db.provision import external_access, provision
from butlers.errors import Away
from butlers.host.database import replicas_of
from butlers.host.registry import CORE
from butlers.memory.flows import remember
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewFact
from butlers.memory.module import MemoryModule
from butlers.memory.operations import OperationContext
from butlers.memory.operations.retrieval import get, search
from conftest import ToyEmbedder
from db.clusters import PASSWORD, Server, Servers, servers
from db.databases import connected

NAME = "general"
DATABASE = f"butler_{NAME}"
LAG = 0.4


@dataclass
class Pair:
    """Two servers that hold the same, as long as nobody stops them."""

    servers: Servers
    primary: Server
    standby: Server

    @property
    def url(self) -> str:
        hosts = f"{self.primary.host},{self.standby.host}"
        return f"postgresql://postgres:{PASSWORD}@{hosts}/postgres"

    async def access(self) -> Access:
        return await own_login(external_access(self.url, DATABASE), DATABASE)


@pytest.fixture(scope="module")
async def pair(anyio_backend: str) -> AsyncIterator[Pair]:
    """The standby is synchronous: what the primary acknowledges it has."""
    with servers() as known:
        primary = await asyncio.to_thread(known.primary)
        await provision(maintenance_url(primary.dsn()), DATABASE, sign_in=False)
        dsn = primary.dsn(DATABASE)
        await migrate(dsn, [CORE, MemoryModule.migrations])
        standby = await asyncio.to_thread(known.standby, primary)
        async with connected(dsn) as owner:
            await owner.execute("alter system set synchronous_standby_names = '*'")
            await owner.execute("select pg_reload_conf()")
        yield Pair(known, primary, standby)


@asynccontextmanager
async def opened(pair: Pair, *urls: str, lag: float = LAG) -> AsyncIterator[OperationContext]:
    """A desk over both, with replicas that are the standby unless others are named."""
    access = await pair.access()
    replicas = replicas_of(access, urls or [pair.standby.dsn(), pair.primary.dsn()], NAME)
    database = await Database.open(access, replicas=replicas, max_lag_seconds=lag)
    toy = ToyEmbedder()
    memory = Memory(database, lambda: toy, NAME)
    try:
        yield OperationContext(memory, Lineage("acme", "tester"))
    finally:
        await memory.uses.settle_all()
        await database.close()


async def store(ctx: OperationContext, content: str) -> str:
    fact = NewFact("Ann", f"likes {content}", content)
    return str((await remember.store_fact(ctx.memory, fact, ctx.lineage)).id)


async def is_found(ctx: OperationContext, content: str) -> bool:
    best = await search.perform(ctx, query=content, mode="keyword", limit=1)
    return [one["content"] for one in best] == [content]


def reads_from_copy(ctx: OperationContext) -> bool:
    return ctx.reader().memory.database.is_replica


async def until(true, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.02)


async def test_whoever_reads_is_served_by_the_standby_and_still_sees_what_it_wrote(pair: Pair):
    async with opened(pair) as ctx, connected(pair.standby.dsn(DATABASE)) as standby:
        stored = await store(ctx, "tea")
        await until(lambda: reads_from_copy(ctx))
        assert ctx.memory.database.replica_problems() == {}, "the primary is no broken replica"
        assert await is_found(ctx, "tea")
        asked = "select count(*) from pg_stat_activity where query like '%act_for%'"
        assert await standby.fetchval(f"{asked} and pid <> pg_backend_pid()") >= 1
        # Reading there is counted at the primary: the standby cannot be written to.
        assert reads_from_copy(ctx)
        await get.perform(ctx, memory_type="fact", memory_id=stored)
        await ctx.memory.uses.settle_all()
        async with connected(pair.primary.dsn(DATABASE)) as owner:
            assert await owner.fetchval("select reference_count from facts") == 1

        await standby.execute("select pg_wal_replay_pause()")
        try:
            other = OperationContext(ctx.memory, Lineage("rival", "tester"))
            await store(ctx, "coffee")
            assert not reads_from_copy(ctx), "it would not see what it wrote"
            assert await is_found(ctx, "coffee")
            await until(lambda: not reads_from_copy(other), 10)
            await until(lambda: bool(ctx.memory.database.replica_problems()), 10)
            [trouble] = ctx.memory.database.replica_problems().values()
            assert trouble == "it is more than 0.4 seconds behind"
        finally:
            await standby.execute("select pg_wal_replay_resume()")
        await until(lambda: reads_from_copy(ctx))
        assert await is_found(ctx, "coffee")
        assert ctx.memory.database.replica_problems() == {}


async def test_what_a_replica_cannot_do_the_primary_does(pair: Pair):
    async with opened(pair) as ctx:
        await store(ctx, "cake")
        await until(lambda: reads_from_copy(ctx))
        async with connected(pair.primary.dsn(DATABASE)) as owner:
            await owner.execute("alter system set synchronous_standby_names = ''")
            await owner.execute("select pg_reload_conf()")
        pair.standby.kill()
        try:
            for _ in range(20):
                assert await is_found(ctx, "cake")
            await store(ctx, "pie")
            await until(lambda: bool(ctx.memory.database.replica_problems()))
            assert not reads_from_copy(ctx)
        finally:
            await asyncio.to_thread(pair.standby.started)
        # It is tried again by itself.
        await until(lambda: reads_from_copy(ctx), 30)
        assert await is_found(ctx, "pie")


async def test_what_is_no_replica_is_never_read_from(pair: Pair, postgres):
    """Neither where nobody is, nor a database of the same name at another server."""
    await provision(postgres.dsn(), DATABASE, sign_in=True)
    async with opened(pair, "postgresql://postgres@127.0.0.1:9/postgres", postgres.dsn()) as ctx:
        await store(ctx, "scones")
        await until(lambda: len(ctx.memory.database.replica_problems()) == 2)
        first, second = ctx.memory.database.replica_problems().values()
        assert "Connect call failed" in first
        assert second == "it is not a replica of the server in database.url"
        assert not reads_from_copy(ctx)
        assert await is_found(ctx, "scones")


async def test_a_write_of_which_nobody_knows_whether_it_was_kept_is_told_so_and_not_repeated(
    pair: Pair,
):
    async with opened(pair) as ctx, connected(pair.primary.dsn(DATABASE)) as owner:
        await owner.execute("alter system set synchronous_standby_names = 'nobody_of_that_name'")
        await owner.execute("select pg_reload_conf()")
        await asyncio.sleep(0.3)
        storing = asyncio.create_task(store(ctx, "jam"))
        waiting = "select pid from pg_stat_activity where wait_event = 'SyncRep'"
        while not (pid := await owner.fetchval(waiting)):
            await asyncio.sleep(0.02)
        await owner.execute(f"select pg_terminate_backend({pid})")
        with pytest.raises(Away, match="may have been done: check whether the change is there"):
            await storing
        await owner.execute("alter system set synchronous_standby_names = '*'")
        await owner.execute("select pg_reload_conf()")
        kept = await owner.fetchval("select count(*) from facts where content = 'jam'")
        assert kept == 1, "it was kept here, and once"


@pytest.mark.slow
async def test_a_primary_that_takes_no_more_writes_is_left_for_the_one_that_does(pair: Pair):
    """As when a standby was promoted and the old primary still answers."""
    async with opened(pair) as ctx, connected(pair.primary.dsn(DATABASE)) as owner:
        await store(ctx, "bread")
        await owner.execute("alter system set default_transaction_read_only = on")
        await owner.execute("alter system set synchronous_standby_names = ''")
        await owner.execute("select pg_reload_conf()")
        await asyncio.to_thread(pair.standby.promote)
        deadline = time.monotonic() + 10
        while True:
            try:
                await store(ctx, "butter")
                break
            except Away:
                assert time.monotonic() < deadline
        async with connected(pair.standby.dsn(DATABASE)) as promoted:
            query = "select count(*) from facts where content = any(array['bread', 'butter'])"
            assert await promoted.fetchval(query) == 2
        assert await is_found(ctx, "bread")
        assert await is_found(ctx, "butter")
        # What was a replica is one no more, and the old primary follows nobody.
        await until(lambda: bool(ctx.memory.database.replica_problems()))
        assert not reads_from_copy(ctx)
