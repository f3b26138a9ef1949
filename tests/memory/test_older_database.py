"""A database that the last version with numbered revisions made: upgraded, it equals a new one.

`data/database_mem_034_core_007.dump.gz` is a dump of such a database with rows of every kind.
"""

import gzip
import json
import re
from pathlib import Path

import pytest

from butlers.db.dump import dump, restore, snapshot_of
from butlers.db.migrate import current_revisions, migrate
from butlers.db.postgres import Access, Database
from butlers.db.provision import provision
from butlers.errors import Unavailable
from butlers.host.registry import branches
from butlers.memory.flows import recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.handle import Memory
from butlers.memory.migrations import mem_035_names
from butlers.memory.model import Lineage, NewFact
from conftest import ToyEmbedder
from db.databases import catalog, connected, fresh_database
from memory.index import differences

DUMP = Path(__file__).parents[1] / "data" / "database_mem_034_core_007.dump.gz"
LINEAGE = Lineage("acme", "tester", "request-1")
HEADS = tuple(sorted(branch.head for branch in branches()))


@pytest.fixture(scope="module")
async def upgraded(postgres, template):
    """The older database after this version opened it: its DSN, its rows before and after."""
    async with fresh_database(postgres) as name:
        dsn = postgres.dsn(name)
        await restore(dsn, iter([gzip.decompress(DUMP.read_bytes())]), owners=True)
        assert await current_revisions(dsn) == ("core_007", "mem_034")
        before = await contents(dsn)
        assert await migrate(dsn, branches())
        assert not await migrate(dsn, branches())
        yield dsn, before, await contents(dsn)


async def contents(dsn):
    """Every row of every table, as the database writes it."""
    async with connected(dsn) as connection:
        tables = await connection.fetch(
            "select tablename from pg_tables where schemaname = 'public' "
            "and tablename <> 'alembic_version' order by 1"
        )
        return {
            table["tablename"]: sorted(
                row[0]
                for row in await connection.fetch(
                    f"select to_jsonb(t)::text from {table['tablename']} t"
                )
            )
            for table in tables
        }


@pytest.mark.contract("P8")
async def test_it_is_at_the_newest_revisions(upgraded):
    assert await current_revisions(upgraded[0]) == HEADS


def dumped_into(buffer):
    """A writer of pieces."""

    async def write(piece):
        buffer.extend(piece)

    return write


@pytest.mark.contract("P8")
async def test_its_schema_equals_that_of_a_new_database(upgraded, postgres):
    async with fresh_database(postgres) as made, fresh_database(postgres) as name:
        await migrate(postgres.dsn(made), branches())
        # PostgreSQL writes some expressions otherwise once they were dumped and restored.
        dumped = bytearray()
        async with snapshot_of(postgres.dsn(made)) as moment:
            await dump(postgres.dsn(made), moment, dumped_into(dumped))
        await restore(postgres.dsn(name), iter([bytes(dumped)]), owners=True)
        async with connected(upgraded[0]) as older, connected(postgres.dsn(name)) as newer:
            found, wanted = await catalog(older), await catalog(newer)
    assert found.keys() == wanted.keys()
    for part, rows in wanted.items():
        assert [row for row in found[part] if row in rows or not is_left(row)] == rows, part


def is_left(row):
    """Whether a row of the catalog is of what stays for processes of the version before."""
    return re.split(r"\W", row[0], maxsplit=1)[0] in mem_035_names.LEFT_IN_PLACE.split()


def known(rows, columns):
    """Rows without columns that were added since, in the order they had without them."""
    bare = [{k: v for k, v in json.loads(row).items() if k in columns} for row in rows]
    return sorted(bare, key=str)


@pytest.mark.contract("P8", "N5.1", "N5.2", "N5.3", "N5.4", "L9")
async def test_no_row_of_it_is_lost_or_changed(upgraded):
    _, before, after = upgraded
    filled = {table for table, rows in before.items() if rows}
    assert {"episodes", "facts", "rules", "entities", "memory_events", "job_runs"} <= filled
    for table, rows in before.items():
        columns = set(json.loads(rows[0])) if rows else set()
        assert known(rows, columns) == known(after[table], columns), table


@pytest.mark.contract("L39")
async def test_the_chain_over_its_events_still_proves_them(upgraded):
    async with connected(upgraded[0]) as connection:
        chained = await connection.fetch(
            "select c.event_id, "
            "c.hash = sha256(lag(c.hash, 1, '') over w || event_digest(e, c.marked)) "
            "from memory_event_chain c join memory_events e on e.id = c.event_id "
            "window w as (partition by c.tenant_id order by c.number)"
        )
    events = [json.loads(row)["id"] for row in upgraded[2]["memory_events"]]
    assert {str(row[0]) for row in chained} == set(events) != set()
    assert all(row[1] for row in chained)


@pytest.mark.contract("P8")
async def test_memories_are_stored_in_it_and_recalled_beside_the_older_ones(
    postgres, template, clock, new_id
):
    async with fresh_database(postgres) as name:
        dsn = postgres.dsn(name)
        await restore(dsn, iter([gzip.decompress(DUMP.read_bytes())]), owners=True)
        async with connected(dsn) as connection:
            low = (
                "update rules set trust = 0 where id in (select id from rules limit 2) returning id"
            )
            less_trusted = {row["id"] for row in await connection.fetch(low)}
        await migrate(dsn, branches())
        await provision(postgres.dsn(), name, sign_in=True)
        database = await Database.open(Access(dsn, postgres.dsn(name)))
        toy = ToyEmbedder()
        memory = Memory(database, lambda: toy, "general", now=clock, new_id=new_id)
        try:
            new = NewFact("Ann", "plays", "the quoted cello")
            stored = await remember.store_fact(memory, new, LINEAGE)
            [newer, *_] = await recall.recall(memory, CandidateQuery("Ann plays"), 5, LINEAGE)
            assert newer.ref.id == stored.id
            older = await recall.recall(memory, CandidateQuery("owl"), 5, LINEAGE)
            assert any("Ünïcode" in one.row["content"] for one in older)
        finally:
            await memory.uses.settle_all()
            await database.close()
        async with connected(dsn) as connection:
            assert await differences(connection) == []
            # What had low trust before is searched apart from now on.
            apart = await connection.fetch("select memory_id from index_memories where doc < 0")
            assert {row["memory_id"] for row in apart} == less_trusted and len(less_trusted) == 2


@pytest.mark.contract("P8")
async def test_a_database_that_is_older_still_is_refused_and_left_alone(postgres, template):
    async with fresh_database(postgres) as name, connected(postgres.dsn(name)) as connection:
        await connection.execute(
            "create table alembic_version (version_num varchar(32) primary key); "
            "insert into alembic_version values ('mem_033'), ('core_007')"
        )
        with pytest.raises(Unavailable, match="mem_033.*`butlers export.*`butlers import"):
            await migrate(postgres.dsn(name), branches())
        assert await current_revisions(postgres.dsn(name)) == ("core_007", "mem_033")
