"""Chains of revisions: side by side, one at a time, all or nothing."""

import asyncio
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from butlers.db.branch import Branch
from butlers.db.migrate import current_revisions, migrate
from butlers.db.upgrade import head_revision
from butlers.errors import Unavailable
from butlers.host.registry import branches
from butlers.memory.module import MemoryModule
from db.databases import catalog, connected, fresh_database, fresh_role
from db.embedded_servers import ENVIRONMENT

MEMORY = MemoryModule.migrations
HEAD = head_revision([MEMORY], "memory")

_REVISION = """
from alembic import op
revision, down_revision, branch_labels, depends_on = {revision!r}, {down!r}, {labels!r}, None
def upgrade():
    for statement in {statements!r}:
        op.execute(statement)
"""


def chain(directory: Path, label: str, *revisions: list[str]) -> Branch:
    """A module's revisions, each a list of statements."""
    directory.mkdir()
    names = [f"{label}_{number:03}" for number in range(1, len(revisions) + 1)]
    for name, down, statements in zip(names, [None, *names], revisions, strict=False):
        text = _REVISION.format(
            revision=name, down=down, labels=None if down else (label,), statements=statements
        )
        (directory / f"{name}.py").write_text(text)
    return Branch(label, str(directory))


@asynccontextmanager
async def empty_database(postgres, template):
    """A database without tables on a server that has the runtime role."""
    async with fresh_database(postgres) as name:
        yield postgres.dsn(name)


async def tables(dsn):
    async with connected(dsn) as connection:
        rows = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
    return {row["tablename"] for row in rows}


@pytest.fixture
def notes(tmp_path):
    """The chain of a small module of its own."""
    return chain(
        tmp_path / "notes",
        "notes",
        ["create table notes (id int)"],
        ["alter table notes add column note text"],
    )


def test_the_newest_revision_of_the_code_is_known(notes):
    assert HEAD.startswith("mem_")
    assert head_revision([MEMORY, notes], "notes") == "notes_002"


@pytest.mark.contract("P8")
async def test_each_enabled_module_has_its_chain_in_the_database(postgres, template, notes):
    async with empty_database(postgres, template) as dsn:
        assert await current_revisions(dsn) == ()
        await migrate(dsn, [MEMORY, notes], ["notes@head"])
        assert await tables(dsn) == {"notes", "alembic_version", "tenant_key"}
        await migrate(dsn, [MEMORY, notes])
        assert set(await current_revisions(dsn)) == {HEAD, "notes_002"}
        assert {"episodes", "facts", "rules", "notes"} <= await tables(dsn)


@pytest.mark.contract("P8")
async def test_a_disabled_modules_revision_stays_and_is_located(postgres, template, notes):
    async with empty_database(postgres, template) as dsn:
        await migrate(dsn, [MEMORY, notes], ["notes@notes_001"])
        await migrate(dsn, [MEMORY, notes], ["memory@head"])
        assert set(await current_revisions(dsn)) == {HEAD, "notes_001"}


async def test_a_revision_nobody_knows_is_explained(postgres, template, notes):
    async with empty_database(postgres, template) as dsn:
        await migrate(dsn, [MEMORY, notes], ["notes@head"])
        with pytest.raises(Unavailable, match="notes_002.*install the version") as refused:
            await migrate(dsn, [MEMORY])
        assert "\n" not in str(refused.value)
        assert await current_revisions(dsn) == ("notes_002",)


@pytest.mark.contract("P8")
async def test_a_failing_revision_leaves_everything_as_it_was(postgres, template, tmp_path):
    broken = chain(
        tmp_path / "broken",
        "broken",
        ["create table half (id int)", "insert into half values (1)"],
        ["create table whole (id int)", "select 1 / (count(*) - 1) from half"],
    )
    async with empty_database(postgres, template) as dsn:
        await migrate(dsn, [MEMORY, broken], ["broken@broken_001"])
        async with connected(dsn) as connection:
            before = await catalog(connection)
        with pytest.raises(Unavailable, match="is unchanged: division by zero"):
            await migrate(dsn, [MEMORY, broken], ["memory@head", "broken@head"])
        async with connected(dsn) as connection:
            assert await catalog(connection) == before
        await migrate(dsn, [MEMORY, broken], ["memory@head"])
        assert set(await current_revisions(dsn)) == {HEAD, "broken_001"}


@pytest.mark.contract("P8")
async def test_migrating_again_changes_nothing_and_is_quick(postgres, template):
    """Not even a tuple of the catalogs is written again."""
    written = (
        "select c.oid, c.xmin::text, a.attname, a.xmin::text from pg_class c "
        "join pg_attribute a on a.attrelid = c.oid "
        "where relnamespace = 'public'::regnamespace order by 1, 3"
    )
    async with fresh_database(postgres, template) as name:
        dsn = postgres.dsn(name)
        async with connected(dsn) as connection:
            before = await connection.fetch(written)
            version = await connection.fetch("select xmin::text, * from alembic_version")
        start = time.perf_counter()
        await migrate(dsn, [MEMORY])
        assert time.perf_counter() - start < 3
        async with connected(dsn) as connection:
            assert await connection.fetch(written) == before
            assert await connection.fetch("select xmin::text, * from alembic_version") == version


@pytest.mark.contract("P8")
async def test_several_databases_at_once_in_one_process(postgres, template):
    async with (
        empty_database(postgres, template) as one,
        empty_database(postgres, template) as two,
        empty_database(postgres, template) as three,
    ):
        await asyncio.gather(*(migrate(dsn, [MEMORY]) for dsn in (one, two, three) * 2))
        catalogs = []
        for dsn in (one, two, three):
            async with connected(dsn) as connection:
                catalogs.append(await catalog(connection))
    assert catalogs[0]["revisions"] == [(HEAD,)]
    assert catalogs[0] == catalogs[1] == catalogs[2]


async def test_the_event_loop_goes_on_meanwhile(postgres, template):
    async with empty_database(postgres, template) as dsn:
        work, beats = asyncio.create_task(migrate(dsn, [MEMORY])), 0
        while not work.done():
            await asyncio.sleep(0.01)
            beats += 1
        await work
    assert beats > 10


@pytest.fixture
def recipes(tmp_path):
    """A module whose schema is at its second revision: a table, and a function that reads it."""
    revisions = chain(
        tmp_path / "recipes",
        "recipes",
        ["select 1"],
        ["alter table recipes add column serves int", "drop function dish(recipes)"],
    )
    schema = tmp_path / "schema"
    schema.mkdir()
    (schema / "1_tables.sql").write_text(
        "-- recipes --\n-- Dishes.\ncreate table recipes (name text, serves int);\n"
    )
    (schema / "2_functions.sql").write_text(
        "-- portions --\n-- For how many.\ncreate or replace function portions(r recipes) "
        "returns int language sql return (r).serves;\n"
    )
    return replace(revisions, head="recipes_002", schema=str(schema), baseline="recipes_001")


@pytest.mark.contract("P8")
async def test_a_new_database_is_made_from_the_schema_and_no_revision_is_applied(
    postgres, template, recipes
):
    async with empty_database(postgres, template) as dsn:
        await migrate(dsn, [recipes])
        assert await current_revisions(dsn) == ("recipes_002",)
        assert "recipes" in await tables(dsn)


@pytest.mark.contract("P8")
async def test_an_older_database_is_upgraded_and_its_functions_replaced(
    postgres, template, recipes
):
    async with empty_database(postgres, template) as dsn, empty_database(postgres, template) as new:
        async with connected(dsn) as connection:
            await connection.execute(
                "create table recipes (name text); "
                "create function dish(r recipes) returns text language sql return (r).name; "
                "create table alembic_version (version_num varchar(32) primary key); "
                "insert into alembic_version values ('recipes_001')"
            )
        await migrate(dsn, [recipes])
        await migrate(new, [recipes])
        async with connected(dsn) as upgraded, connected(new) as fresh:
            found, wanted = await catalog(upgraded), await catalog(fresh)
    for part in ("columns", "functions", "revisions"):
        assert [row for row in found[part] if "alembic" not in row[0]] == [
            row for row in wanted[part] if "alembic" not in row[0]
        ]


@pytest.mark.contract("P8")
async def test_a_database_older_than_the_baseline_is_refused_with_the_way_out(
    postgres, template, notes
):
    async with empty_database(postgres, template) as dsn:
        await migrate(dsn, [notes], ["notes@notes_001"])
        newer = replace(notes, head="notes_002", baseline="notes_002")
        with pytest.raises(Unavailable, match="notes_001.*`butlers export.*`butlers import"):
            await migrate(dsn, [newer])
        assert await current_revisions(dsn) == ("notes_001",)


_MIGRATE = """
import asyncio, sys
from butlers.db.migrate import migrate
from butlers.memory.module import MemoryModule
asyncio.run(migrate(sys.argv[1], [MemoryModule.migrations]))
"""


@pytest.mark.contract("P8")
async def test_two_processes_at_once_on_one_database(postgres, template):
    async with empty_database(postgres, template) as dsn:
        command = [sys.executable, "-c", _MIGRATE, dsn]
        processes = [
            subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE) for _ in range(2)
        ]
        outcomes = [(process.communicate()[1], process.returncode) for process in processes]
        assert outcomes == [(b"", 0), (b"", 0)]
        assert await current_revisions(dsn) == (HEAD,)


async def test_another_process_is_waited_for(postgres, template):
    """Whoever holds the database's lock is migrating; the second starts when the first is done."""
    async with empty_database(postgres, template) as dsn, connected(dsn) as first:
        transaction = first.transaction()
        await transaction.start()
        await first.execute("select pg_advisory_xact_lock(hashtextextended('butlers.migrate', 0))")
        second = asyncio.create_task(migrate(dsn, [MEMORY]))
        waiting = (
            "select count(*) from pg_locks join pg_database on pg_database.oid = database "
            "where datname = current_database() and locktype = 'advisory' and not granted"
        )
        while not await first.fetchval(waiting):
            await asyncio.sleep(0.05)
        assert await tables(dsn) == set()
        await transaction.commit()
        await second
        assert await current_revisions(dsn) == (HEAD,)


async def test_what_a_dsn_may_say_is_understood(postgres, template):
    """Options that only the driver knows do not stop a migration."""
    async with empty_database(postgres, template) as dsn:
        await migrate(f"{dsn}&sslmode=prefer&application_name=moving", [MEMORY])
        assert await current_revisions(f"{dsn}&sslmode=prefer") == (HEAD,)


async def test_a_login_without_rights_is_told_so(postgres, template):
    async with (
        fresh_role(postgres) as powerless,
        fresh_database(postgres) as name,
    ):
        with pytest.raises(Unavailable, match="is unchanged: permission denied"):
            await migrate(postgres.dsn(name, powerless), [MEMORY])


async def test_a_server_that_is_not_there_is_unavailable(tmp_path):
    nowhere = f"postgresql://x@/x?host={tmp_path}"
    with pytest.raises(Unavailable, match="does not answer"):
        await migrate(nowhere, [MEMORY])
    with pytest.raises(Unavailable, match="does not answer"):
        await current_revisions(nowhere)


async def test_a_table_in_the_way_stops_it_and_is_named(postgres, template):
    async with empty_database(postgres, template) as dsn, connected(dsn) as connection:
        await connection.execute("create table episodes (id int)")
        with pytest.raises(Unavailable, match='"episodes" already exists'):
            await migrate(dsn, [MEMORY])
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.fetch("select 1 from facts")


@pytest.mark.parametrize("branch", branches(), ids=lambda branch: branch.label)
def test_every_branch_names_its_newest_revision(branch: Branch) -> None:
    """A start that finds it in place does not even look at the revisions."""
    assert branch.head == head_revision(branches(), branch.label)
