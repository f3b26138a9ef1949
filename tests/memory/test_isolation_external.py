"""An external server, whose owner has no powers, keeps tenants apart as well."""

from contextlib import asynccontextmanager

import asyncpg
import pytest

from butlers.db.login import RUNTIME_ROLE, login_of, own_login, signs_in
from butlers.db.migrate import migrate
from butlers.db.postgres import Database
from butlers.db.provision import external_access, provision
from butlers.memory.flows import remember
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewFact
from butlers.memory.module import MemoryModule
from conftest import ToyEmbedder
from db.databases import catalog, connected, fresh_database, fresh_role
from memory.tenants import TENANTS


@asynccontextmanager
async def external_server(postgres):
    """A database as on somebody's server: its owner is no superuser, one login does everything."""
    async with fresh_role(postgres, "createrole") as login:
        async with connected(postgres.dsn()) as superuser:
            await superuser.execute(f"grant {RUNTIME_ROLE} to {login}")
        async with fresh_database(postgres, owner=login) as name:
            async with connected(postgres.dsn(name)) as superuser:
                await superuser.execute("create extension vector schema public")
            maintenance = postgres.dsn(user=login)
            await provision(maintenance, name, sign_in=False)
            yield external_access(maintenance, name)


@pytest.mark.contract("L1", "P8", "R29.2")
async def test_an_owner_without_powers_keeps_tenants_apart_too(postgres, template, new_id, clock):
    async with external_server(postgres) as access:
        await migrate(access.owner_dsn, [MemoryModule.migrations])
        await migrate(access.owner_dsn, [MemoryModule.migrations])
        database = await Database.open(access)
        try:
            await both_remember_and_find_their_own(database, new_id, clock)
        finally:
            await database.close()
        async with connected(access.owner_dsn) as owner:
            # Forced: not even the owner reads rows without naming the tenant.
            assert await owner.fetchval("select count(*) from facts") == 0
            assert await owner.fetchval("select rolsuper from pg_roles where rolname=user") is False


@pytest.mark.contract("L1")
async def test_a_butler_has_its_own_login_where_one_can_be_made(postgres, template, new_id, clock):
    async with external_server(postgres) as access:
        await migrate(access.owner_dsn, [MemoryModule.migrations])
        async with connected(access.owner_dsn) as owner:
            name, login = await owner.fetchrow("select current_database(), current_user::text")
        assert await own_login(access, name) == access, "it may make none, and steps down"
        assert not await signs_in(access, name)
        async with connected(postgres.dsn()) as superuser:
            await superuser.execute(f"alter role {login} createrole")
            await superuser.execute(f"grant {RUNTIME_ROLE} to {login} with admin option")
        signed_in = await own_login(access, name)
        assert await own_login(access, name) == signed_in
        assert await signs_in(access, name)
        async with connected(signed_in.runtime_dsn) as runtime:
            await runtime.execute("reset role")
            assert await runtime.fetchval("select current_user") == login_of(name)
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await runtime.fetch("select inner_key from tenant_key")
        database = await Database.open(signed_in)
        try:
            await both_remember_and_find_their_own(database, new_id, clock, login_of(name))
        finally:
            await database.close()
        async with connected(postgres.dsn(name)) as superuser:
            await superuser.execute(f"drop owned by {login_of(name)}")
            await superuser.execute(f"drop role {login_of(name)}")


async def both_remember_and_find_their_own(database, new_id, clock, role=RUNTIME_ROLE):
    toy = ToyEmbedder()
    memory = Memory(database, lambda: toy, "general", now=clock, new_id=new_id)
    for tenant in TENANTS:
        fact = NewFact("Ann", "likes", f"tea with {tenant}")
        await remember.store_fact(memory, fact, Lineage(tenant))
    search = (
        "select current_user::text, content from facts "
        "where search_vector @@ plainto_tsquery('english', 'Ann tea')"
    )
    for tenant in TENANTS:
        async with database.transaction(tenant) as tx:
            rows = await tx._connection.fetch(search)
            assert [tuple(row.values()) for row in rows] == [(role, f"tea with {tenant}")]
    assert await database.tenants() == ["acme", "rival"]


async def test_an_owner_without_powers_makes_the_same_schema(postgres, template):
    """Apart from who owns it."""
    async with (
        external_server(postgres) as access,
        fresh_database(postgres, template) as name,
        connected(postgres.dsn(name)) as embedded,
    ):
        await migrate(access.owner_dsn, [MemoryModule.migrations])
        async with connected(access.owner_dsn) as owner:
            found, expected = await catalog(owner), await catalog(embedded)
            login = await owner.fetchval("select current_user")
    assert repr(found).replace(login, "postgres") == repr(expected)
