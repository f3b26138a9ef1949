"""PgBouncer in transaction mode stands in between, and nobody notices."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from butlers.db.address import maintenance_url
from butlers.db.login import login_of, own_login
from butlers.db.migrate import migrate
from butlers.db.postgres import Database
from butlers.db.provision import external_access, provision
from butlers.host.registry import CORE
from butlers.memory.flows import remember
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewFact
from butlers.memory.module import MemoryModule
from butlers.memory.operations import OperationContext
from butlers.memory.operations.retrieval import context, recall, search
from butlers.memory.operations.storage import store_rule
from conftest import ToyEmbedder
from db.clusters import POOLER, Server, Servers, servers
from db.databases import connected
from interfaces.daemons import butlers, temporary_home, up

pytestmark = pytest.mark.skipif(POOLER is None, reason="pgbouncer is not installed")
DATABASE = "butler_pooled"
TENANTS = ("acme", "rival")


@pytest.fixture(scope="module")
def known() -> Iterator[Servers]:
    with servers() as found:
        yield found


@pytest.fixture(scope="module")
def server(known: Servers) -> Server:
    return known.primary()


@pytest.fixture(scope="module")
async def database(known: Servers, server: Server, anyio_backend: str) -> AsyncIterator[Database]:
    """Made, migrated and used through a pooler that has one connection for each login."""
    url = (await asyncio.to_thread(known.pooler, server, 1)).dsn()
    await provision(maintenance_url(url), DATABASE, sign_in=False)
    access = external_access(url, DATABASE)
    await migrate(access.owner_dsn, [CORE, MemoryModule.migrations])
    signed_in = await own_login(access, DATABASE)
    assert signed_in.runtime_role is None, "it has a login of its own, which the pooler asked for"
    database = await Database.open(signed_in)
    yield database
    await database.close()


async def lives(memory: Memory, tenant: str) -> None:
    """A tenant stores and reads; all it is told is its own."""
    ctx = OperationContext(memory, Lineage(tenant, "tester"))
    for number in range(3):
        fact = NewFact("Ann", f"likes {number}", f"tea {number} with {tenant}")
        await remember.store_fact(memory, fact, ctx.lineage)
        await store_rule.perform(ctx, content=f"always pour {number} for {tenant}")
        for told in (
            await search.perform(ctx, query="tea"),
            await recall.perform(ctx, topic="tea"),
        ):
            assert told
            assert all(tenant in one["content"] for one in told)
        block = await context.perform(ctx, trigger_prompt="tea")
        assert not any(other in str(block) for other in TENANTS if other != tenant)
    assert len(await search.perform(ctx, query="tea", types=["fact"], limit=50)) == 3


@pytest.mark.contract("L1", "R29.2")
async def test_two_tenants_on_one_server_connection_never_see_each_other(
    database: Database, server: Server
):
    toy = ToyEmbedder()
    memory = Memory(database, lambda: toy, "pooled")
    # Whoever else uses the pooler may leave such things behind on a connection.
    async with database._pool.pool.acquire() as connection:
        await connection.execute("set search_path = ''; set row_security = off; set jit = on")
    await asyncio.gather(*(lives(memory, tenant) for tenant in TENANTS for _ in range(3)))
    await memory.uses.settle_all()
    assert await database.tenants() == sorted(TENANTS)
    async with database.transaction("acme") as tx:
        shown = await tx._connection.fetchrow(
            "select current_user, current_setting('jit') as jit, count(*) as named, "
            "current_setting('lock_timeout') as waits from pg_prepared_statements"
        )
        assert tuple(shown) == (login_of(DATABASE), "off", 0, "5s")
    async with connected(server.dsn(DATABASE)) as owner:
        of_login = "select count(*) from pg_stat_activity where usename = $1"
        assert await owner.fetchval(of_login, login_of(DATABASE)) == 1
        assert await owner.fetchval("select unbound from tenant_key")
        assert await owner.fetchval("select sum(reference_count) from facts") > 0


async def test_what_was_said_on_a_connection_is_nobodys_on_the_next(database: Database):
    async with database.transaction("acme"):
        pass
    async with database.system_transaction() as tx:
        assert not await tx._connection.fetchval("select current_setting('butlers.tenant', true)")
        assert await tx._connection.fetchval("select count(*) from facts") == 0
    with pytest.raises(asyncpg.PostgresError, match="not proven"):
        async with database._pool.pool.acquire() as connection:
            await connection.fetchval("select public.act_for('acme', '', repeat('0', 64))")


@pytest.mark.slow
def test_a_home_lives_behind_a_pooler_that_knows_one_login_alone(known: Servers, server: Server):
    """Requests step down from it within each transaction."""
    pooler = known.pooler(server, 2, knows_logins=False)
    with temporary_home() as home:
        home.create_butler("general")
        home.settings_file.write_text(f'[database]\nurl = "{pooler.dsn()}"\n')
        with up(home) as daemon:
            assert daemon.health() == 200
            said = ("--home", home.root)
            tea = ("tea", *said)
            for words in (
                ("memory", "store-fact", "Ann", "likes", "green tea", *said),
                ("memory", "recall", "what does Ann like to drink", *said),
                ("memory", "context", *tea),
                ("jobs", "run", "decay_sweep", *said),
                ("doctor", *said),
            ):
                done = butlers(*words)
                assert done.returncode == 0, (words, done.stdout, done.stderr)
                assert words[1] != "recall" or "green tea" in done.stdout
            assert daemon.health() == 200
        # The same home without a daemon, after a dump through the pooler.
        for words in (("backup", home.root.parent / "b.zip", *said), ("memory", "search", *tea)):
            done = butlers(*words)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert "green tea" in done.stdout
