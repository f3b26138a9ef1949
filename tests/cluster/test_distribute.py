"""A database is distributed over the nodes of a cluster and brought back, while it is used."""

import asyncio
import itertools
import json
import os
import signal
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from butlers.db.login import own_login
from butlers.db.migrate import migrate
from butlers.db.postgres import Database
from butlers.db.primary_connector import connected
from butlers.db.provision import external_access, provision
from butlers.errors import ButlersError, Unavailable
from butlers.host.home import Home
from butlers.host.registry import CORE
from butlers.memory.flows import correct, remember
from butlers.memory.flows.history import verify_events
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewFact
from butlers.memory.module import MemoryModule
from butlers.settings.names import database_name
from butlers_cluster.distribution import is_distributed
from butlers_cluster.move import ButlerDatabase, move
from butlers_cluster.nodes import list_nodes
from butlers_cluster.switchover import drop_database
from butlers_cluster.tables import list_tables
from conftest import CLUSTER, NEEDS_CLUSTER, ToyEmbedder
from interfaces.daemons import ENVIRONMENT, PROGRAM, butlers, temporary_home
from memory.index import differences

TENANTS = ("acme", "rival", "quiet")


@dataclass
class Moved:
    """A butler whose database moves, and what is known to be in it."""

    home: Home
    name: str
    memory: Memory
    kept: set = field(default_factory=set)
    refused: list = field(default_factory=list)

    @property
    def dsn(self):
        return external_access(CLUSTER, database_name(self.name)).owner_dsn

    def command(self, *words):
        done = butlers("db", *words, "--home", self.home.root, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def killed(self, word, at):
        """The command is killed as soon as it says that it is there."""
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "db", word, self.name, "--home", str(self.home.root),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=ENVIRONMENT,
        )  # fmt: skip
        said = [""]
        while not said[-1].startswith(at):
            said.append((await process.stderr.readline()).decode())
            assert said[-1], f"it ended before {at!r}: {said[-3:]}"
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()

    async def write(self, number, stop):
        """Store and correct, for one of two tenants; what was acknowledged is known."""
        lineage = Lineage(TENANTS[number % 2], "writer", f"request-{number}")
        for turn in itertools.count():
            if stop.is_set():
                return
            try:
                new = NewFact(f"P{number}-{turn % 7}", "likes", f"tea {turn}")
                stored = await remember.store_fact(self.memory, new, lineage)
                self.kept.add((lineage.tenant_id, stored.id))
                put_right = await correct.correct_fact(
                    self.memory, stored.id, f"ale {turn}", lineage
                )
                self.kept.add((lineage.tenant_id, put_right.id))
            except ButlersError as error:
                self.refused.append(repr(error))
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def writers(self):
        stop = asyncio.Event()
        tasks = [asyncio.create_task(self.write(number, stop)) for number in range(4)]
        try:
            yield
            await asyncio.sleep(1)
        finally:
            stop.set()
            await asyncio.gather(*tasks)

    async def contents(self):
        """Every row of every table, in no order."""
        async with connected(self.dsn) as owner:
            return {
                table.name: sorted(repr(dict(row)) for row in await owner.fetch(table.select))
                for table in await list_tables(owner)
            }


@pytest.fixture
async def moved():
    """A butler with a plain database on the coordinator, and something of three tenants in it."""
    name = f"moved_{uuid.uuid4().hex[:8]}"
    with temporary_home() as home:
        file = home.create_butler(name, "")
        file.write_text(file.read_text().replace('#url = ""', f'url = "{CLUSTER}"', 1))
        database = database_name(name)
        access = external_access(CLUSTER, database)
        await provision(CLUSTER, database, sign_in=False)
        await migrate(access.owner_dsn, [CORE, MemoryModule.migrations])
        opened = await Database.open(await own_login(access, database))
        toy = ToyEmbedder()
        memory = Memory(opened, lambda: toy, "general")
        for tenant in TENANTS:
            new = NewFact("Ann", "likes", f"the tea of {tenant}")
            await remember.store_fact(memory, new, Lineage(tenant, "tester", "request-0"))
        try:
            yield Moved(home, name, memory)
        finally:
            await memory.uses.settle_all()
            await opened.close()
            async with connected(CLUSTER) as server:
                nodes = await list_nodes(server)
                for suffix in ("", "_next", "_before"):
                    await drop_database(server, nodes, CLUSTER, database + suffix)


@NEEDS_CLUSTER
async def test_a_database_is_distributed_and_brought_back_while_it_is_used(moved):
    async with moved.writers():
        for moment in ("copy facts", "catch up", "close the old database"):
            await moved.killed("distribute", moment)
        told = json.loads(
            await asyncio.to_thread(moved.command, "distribute", moved.name, "--json")
        )
    assert (told["moved"], told["distributed"]) == (True, True)
    async with connected(moved.dsn) as owner:
        assert await is_distributed(owner)
        rows = {tuple(row) for row in await owner.fetch("select tenant_id, id from facts")}
    assert moved.kept <= rows and len(moved.kept) > 40
    for tenant in TENANTS:
        found = await verify_events(moved.memory, Lineage(tenant, "tester", "request-0"))
        assert (found["intact"], found["faults"]) == (True, [])
        async with moved.memory.database.transaction(tenant) as tx:
            seen = await tx._connection.fetch("select tenant_id, id from facts")
        assert {tuple(row) for row in seen} == {row for row in rows if row[0] == tenant}
    # Whoever was being answered when the command was killed is told so; nobody else is.
    assert len(moved.refused) <= 40, moved.refused

    before = await moved.contents()
    moved.command("distribute", moved.name, "--drop-before")
    await moved.killed("undistribute", "switch over")
    moved.command("undistribute", moved.name)
    assert await moved.contents() == before
    stored = await remember.store_fact(
        moved.memory, NewFact("Bob", "likes", "tea"), Lineage("quiet", "tester", "request-1")
    )
    async with connected(moved.dsn) as owner:
        assert not await is_distributed(owner)
        assert await differences(owner) == []
        assert await owner.fetchval("select count(*) from facts where id = $1", stored.id) == 1
        numbers = await owner.fetch(
            "select sequence from memory_events where tenant_id = 'quiet' order by created_at"
        )
        assert [n["sequence"] for n in numbers] == sorted(n["sequence"] for n in numbers)


@NEEDS_CLUSTER
async def test_what_was_begun_can_be_abandoned(moved):
    before = await moved.contents()
    await moved.killed("distribute", "copy facts")
    moved.command("distribute", moved.name, "--abandon")
    async with connected(moved.dsn) as owner:
        assert await owner.fetchval("select to_regnamespace('moving')") is None
        assert not await owner.fetchval("select 1 from pg_trigger where tgname = 'moving_note'")
        assert not await owner.fetchval(
            "select 1 from pg_database where datname = $1", database_name(moved.name) + "_next"
        )
    assert await moved.contents() == before


async def test_a_server_that_is_no_coordinator_is_refused(postgres):
    async def nothing(dsn):
        raise AssertionError(dsn)

    with pytest.raises(Unavailable, match="no coordinator of a Citus cluster"):
        butler = ButlerDatabase("general", postgres.dsn(), "butler_general", nothing)
        await move(butler, print, distributed=True)


def test_a_butler_on_the_embedded_server_is_told_what_to_do():
    with temporary_home() as home:
        home.create_butler("kitchen", "")
        for words in (("distribute",), ("undistribute",), ("rebalance",)):
            done = butlers("db", *words, "kitchen", "--home", home.root)
            assert done.returncode == 1
            assert "name a Citus coordinator in database.url" in done.stderr
        ghost = butlers("db", "distribute", "ghost", "--home", home.root)
        assert "there is no butler 'ghost'" in ghost.stderr
