"""Databases of later butlers are copies: alike in their schema, with keys of their own."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from butlers.db.postgres import Access
from butlers.db.template import TEMPLATE
from butlers.host import registry
from butlers.host.database import DatabaseServer
from butlers.settings.sections import DatabaseSection
from db.databases import catalog, connected
from interfaces.furnished import furnished_home


@pytest.fixture
async def server() -> AsyncIterator[DatabaseServer]:
    """A server that has the database of one butler."""
    with furnished_home("general") as home:
        server = DatabaseServer(home)
        yield server
        await server.release()


async def prepared(server: DatabaseServer, butler: str, *modules: str) -> Access:
    targets = registry.targets(modules or registry.KNOWN)
    return await server.prepare(butler, DatabaseSection(), registry.branches(), targets)


async def keys(access: Access) -> bytes:
    async with connected(access.owner_dsn) as owner:
        return await owner.fetchval("select inner_key || outer_key from tenant_key")


async def test_a_copy_is_as_one_that_was_migrated_but_for_its_keys(
    server: DatabaseServer, migrated: list[str]
) -> None:
    first = await prepared(server, "general")
    assert migrated == []
    copies = await asyncio.gather(*(prepared(server, name) for name in ("kitchen", "garden")))
    assert migrated == [TEMPLATE]
    async with connected(first.owner_dsn) as one:
        wanted = await catalog(one)
    for copy in copies:
        async with connected(copy.owner_dsn) as other:
            assert await catalog(other) == wanted
        async with connected(copy.runtime_dsn) as other:
            assert await other.fetchval("select count(*) from facts") == 0
    assert len({len(await keys(one)) for one in (first, *copies)} - {128}) == 0
    assert len({await keys(one) for one in (first, *copies)}) == 3


async def test_what_was_begun_is_finished_and_what_is_old_made_anew(
    server: DatabaseServer, migrated: list[str]
) -> None:
    kitchen = await prepared(server, "kitchen")
    async with connected(kitchen.owner_dsn) as owner:
        await owner.execute("delete from tenant_key")  # killed before it had any
    assert len(await keys(await prepared(server, "kitchen"))) == 128
    async with connected(server.embedded_dsn()) as owner:
        await owner.execute(f"comment on database {TEMPLATE} is 'another version'")
    await prepared(server, "garden")
    assert migrated == [TEMPLATE, TEMPLATE]


async def test_a_butler_without_memory_has_no_tables_of_it(
    server: DatabaseServer, migrated: list[str]
) -> None:
    study = await prepared(server, "study", "notebook")
    assert migrated == ["butler_study"]
    async with connected(study.owner_dsn) as owner:
        assert await owner.fetchval("select to_regclass('facts')") is None


async def test_without_a_template_a_database_is_migrated_by_itself(
    server: DatabaseServer, migrated: list[str]
) -> None:
    await server.hold()
    async with connected(server.embedded_dsn()) as owner:
        await owner.execute(f"create database {TEMPLATE} is_template true")
    access = await prepared(server, "kitchen")
    assert migrated == ["butler_kitchen"]
    assert len(await keys(access)) == 128
