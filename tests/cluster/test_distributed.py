"""A database distributed over nodes: the same memory, each tenant on one of them."""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from butlers.db.login import login_of
from butlers.db.postgres import Transaction
from butlers.errors import Away, Unavailable
from butlers.memory.flows import candidates, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.context import ContextQuery, build_context
from butlers.memory.flows.history import verify_events
from butlers.memory.model import Lineage, NewEpisode, NewFact, NewRule
from butlers_cluster.distribution import ensure_distributed
from butlers_cluster.nodes import ClusterNode, list_nodes
from butlers_cluster.tenant_placement import isolate
from conftest import CLUSTER, NEEDS_CLUSTER
from db.databases import connected
from db.distributed import likings
from memory.consolidation_stories import reading, tell
from memory.scripted_model import ScriptedModel

pytestmark = NEEDS_CLUSTER
DIRECTORY = os.environ.get("BUTLERS_TEST_CLUSTER_DIRECTORY", "")
RUN_AT_NODES = """
    select p.proname::text as name from pg_dist_object d
    join pg_proc p on d.classid = 'pg_proc'::regclass and d.objid = p.oid
    where d.distribution_argument_index is not null
"""
TEA = NewFact("Ann", "likes", "tea")


@contextmanager
def told(patch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[Any, ...]]]:
    """Every statement that tenants' transactions run, with the values it had last."""
    seen: dict[str, tuple[Any, ...]] = {}
    bound = Transaction._bound

    def noting(self: Transaction, query: Any, values: dict[str, Any]) -> tuple[Any, ...]:
        seen[query.positional] = arguments = bound(self, query, values)
        return arguments

    patch.setattr(Transaction, "_bound", noting)
    yield seen


async def lived(memory: Any, lineage: Lineage) -> None:
    """A few things that happen to every memory."""
    await remember.store_episode(memory, NewEpisode("Ann called", "general"), lineage)
    await remember.store_rule(memory, NewRule("Be brief"), lineage)
    await remember.store_fact(memory, TEA, lineage)
    await remember.store_fact(memory, NewFact("Ann", "likes", "coffee"), lineage)
    await recall.recall(memory, CandidateQuery("what does Ann like"), 10, lineage)
    await build_context(memory, ContextQuery("what does Ann like", "general"), lineage)
    await memory.uses.settle_all()


async def test_every_statement_of_a_tenant_goes_to_one_shard(memory, database, lineage, owner):
    with pytest.MonkeyPatch.context() as patch, told(patch) as seen:
        await lived(memory, lineage)
        patch.setattr(candidates, "READ_WHOLE", -1)
        patch.setattr(candidates, "AT_ONCE", -1)
        assert await recall.recall(memory, CandidateQuery("what does Ann like"), 10, lineage)
        await tell(memory, lineage, "Bob likes tea")
        report = await run_consolidation(memory, ScriptedModel(reading), lineage)
    several = []
    at_node = {row["name"] for row in await owner.fetch(RUN_AT_NODES)}
    for statement, (_, *values) in seen.items():
        if any(f"{name}(" in statement for name in at_node):
            continue
        async with database.transaction(lineage.tenant_id, "test") as tx:
            plan = await _plan(tx, statement, values)
        if any(int(tasks) != 1 for tasks in re.findall(r"Task Count: (\d+)", plan)):
            several.append((statement, plan))
    assert report.groups == {"general": 2}
    assert len(seen) > 30
    assert several == []


async def _plan(tx: Transaction, statement: str, values: list[Any]) -> str:
    rows = await tx._connection.fetch(f"explain (costs off) {statement}", *values)
    return "\n".join(row[0] for row in rows)


async def test_rows_are_closed_on_the_nodes_too(memory, worker_access, lineage, owner):
    await lived(memory, lineage)
    database = await owner.fetchval("select current_database()")
    for node in await list_nodes(owner):
        async with connected(node.dsn(worker_access.runtime_dsn, database)) as there:
            assert await there.fetchval("select current_user") == login_of(database)
            await there.execute("set citus.override_table_visibility = off")
            parts = await there.fetch(
                "select c.oid::regclass::text as name from pg_class c "
                "where c.relkind = 'r' and c.relname ~ '^(facts|index_words)(_[0-9]+)?$'"
            )
            assert len(parts) > 4
            await there.execute("set butlers.tenant = 'acme'; set butlers.proof = 'believe me'")
            for part in parts:
                assert await there.fetchval(f"select count(*) from {part['name']}") == 0
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await there.fetch("select * from tenant_key")
    assert await owner.fetchval("select count(*) from facts where tenant_id = 'acme'") == 2


async def test_who_is_on_another_node_does_not_notice_that_one_is_down(memory, owner):
    nodes = await list_nodes(owner)
    by_node: dict[ClusterNode, Lineage] = {}
    for number in range(32):
        lineage = Lineage(f"tenant-{number}", "tester")
        by_node.setdefault(await _node_of(owner, lineage.tenant_id), lineage)
    assert set(by_node) == set(nodes)
    for lineage in by_node.values():
        await remember.store_fact(memory, TEA, lineage)
    down, *others = nodes
    with _stopped(down):
        with pytest.raises(Unavailable, match="the database"):
            await remember.store_fact(memory, NewFact("Bob", "likes", "ale"), by_node[down])
        for node in others:
            await remember.store_fact(memory, NewFact("Bob", "likes", "ale"), by_node[node])
            assert await _knows(memory, by_node[node]) == {"tea", "ale"}
    assert await _knows(memory, by_node[down]) == {"tea"}
    await remember.store_fact(memory, NewFact("Bob", "likes", "ale"), by_node[down])
    assert await _knows(memory, by_node[down]) == {"tea", "ale"}
    await _found_again(owner)


async def test_a_node_that_was_restarted_is_soon_found_again(memory, database, owner, lineage):
    """Connections to it that broke are noticed by whoever needs them first, and told as such."""
    await remember.store_fact(memory, TEA, lineage)
    node = await _node_of(owner, lineage.tenant_id)
    with pytest.raises(Away, match="which may have been done"):
        async with database.transaction(lineage.tenant_id) as tx:
            await tx._connection.execute("update facts set importance = 1 where tenant_id = 'acme'")
            with _stopped(node):
                pass
    away = 0
    for turn in range(12):
        try:
            await database.tenants()
            await remember.store_fact(memory, NewFact("Bob", f"likes_{turn}", "ale"), lineage)
        except Away:
            away += 1
    assert away <= 2
    assert len(await _knows(memory, lineage)) == 2
    await _found_again(owner)


ADDED = """
    create table later_added (tenant_id text not null, id uuid primary key, said text);
    alter table later_added enable row level security, force row level security;
    create policy later_added_own_tenant on later_added
    using (tenant_id = (select proven_tenant())) with check (tenant_id = (select proven_tenant()));
    grant select, insert on later_added to butlers_runtime;
    create function later_said(tenant text) returns setof text language sql stable
    begin atomic select said from later_added where tenant_id = tenant; end;
"""


async def test_what_a_later_revision_adds_is_distributed_too(
    memory, database, owner, worker_access, lineage
):
    await remember.store_fact(memory, TEA, lineage)
    name = await owner.fetchval("select current_database()")
    await owner.execute(ADDED)
    await owner.execute(f"comment on database {name} is 'of an older version'")
    try:
        assert await ensure_distributed(CLUSTER, worker_access.owner_dsn, name)
        async with database.transaction(lineage.tenant_id) as tx:
            await tx._connection.execute(
                "insert into later_added values ('acme', gen_random_uuid(), 'yes')"
            )
            assert await tx._connection.fetchval("select later_said('acme')") == "yes"
        async with database.transaction("stranger") as tx:
            assert await tx._connection.fetchval("select count(*) from later_added") == 0
        assert await _knows(memory, lineage) == {"tea"}
    finally:
        await owner.execute("drop function later_said(text); drop table later_added")


async def test_a_tenant_moves_while_it_is_used(memory, database, owner, worker_access, lineage):
    await remember.store_fact(memory, TEA, lineage)
    here = await _node_of(owner, lineage.tenant_id)
    there = next(node for node in await list_nodes(owner) if node != here)
    kept, refused, is_there = set(), [], asyncio.Event()

    async def write(number: int) -> None:
        turn = 0
        while not is_there.is_set() or turn < 3:
            new = NewFact(f"P{number}", f"likes_{turn}", "ale")
            try:
                kept.add((await remember.store_fact(memory, new, lineage)).id)
            except Away as error:
                refused.append(error)
            turn += 1

    async with asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(write(number))
        moved = await isolate(worker_access.owner_dsn, lineage.tenant_id, str(there))
        is_there.set()
    assert moved.node == str(there) == str(await _node_of(owner, lineage.tenant_id))
    rows = await owner.fetch("select id from facts where tenant_id = $1", lineage.tenant_id)
    assert kept < {row["id"] for row in rows}
    # Whoever was sent to where it had been a moment before is told so, and only then.
    assert len(refused) <= 2
    assert (await verify_events(memory, lineage))["faults"] == []
    told = await owner.fetch(
        "select created_at from memory_events where tenant_id = $1 order by sequence",
        lineage.tenant_id,
    )
    assert told == sorted(told)
    async with database.transaction("stranger", "test") as tx:
        count = "select count(*) from facts"
        assert await tx._connection.fetchval(count) == 0
    assert "tea" in await _knows(memory, lineage)


async def _knows(memory: Any, lineage: Lineage) -> set[str]:
    """What a tenant's facts say; a node that just came back gets a moment."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await likings(memory, lineage)
            except Unavailable:
                await asyncio.sleep(0.2)


async def _found_again(owner: asyncpg.Connection) -> None:
    """What a connection of a test's own knew of a node before it was restarted is forgotten."""
    for _ in range(5):
        with suppress(asyncpg.InternalServerError, asyncpg.PostgresConnectionError):
            await owner.fetchval("select count(*) from facts")


async def _node_of(owner: asyncpg.Connection, tenant: str) -> ClusterNode:
    row = await owner.fetchrow(
        "select nodename as host, nodeport as port from citus_shards "
        "where shardid = get_shard_id_for_distribution_column('facts', $1::text)",
        tenant,
    )
    return ClusterNode(**row)


@contextmanager
def _stopped(node: ClusterNode) -> Iterator[None]:
    """A node that was killed for as long as the block lasts."""
    data = Path(DIRECTORY) / "run" / _data_of(node)
    _control("stop", "-D", str(data), "-m", "immediate")
    try:
        yield
    finally:
        _control("start", "-D", str(data), "-l", f"{data}.log")


def _data_of(node: ClusterNode) -> str:
    for data in (Path(DIRECTORY) / "run").glob("worker[0-9]"):
        if f"port={node.port}\n" in (data / "postgresql.conf").read_text():
            return data.name
    raise LookupError(node)


def _control(*arguments: str) -> None:
    """What the server's own program does, as the user whose server it is."""
    run = Path(DIRECTORY) / "run"
    command = [str(Path(DIRECTORY) / "pg" / "bin" / "pg_ctl"), "-w", *arguments]
    subprocess.run(
        command,
        check=True,
        user=run.stat().st_uid,
        env={**os.environ, "LD_LIBRARY_PATH": str(Path(DIRECTORY) / "libs")},
        stdout=subprocess.DEVNULL,
    )
