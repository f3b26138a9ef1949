"""Whoever may run SQL as a butler's own login reaches no other tenant and no other butler."""

import hashlib
import uuid
from dataclasses import replace

import asyncpg
import pytest

from butlers.db.login import login_of
from butlers.db.postgres import Access, Database
from butlers.db.provision import provision
from butlers.db.tenant_proof import read_keys
from butlers.errors import IntegrityViolation
from butlers.memory.flows import remember
from butlers.memory.model import Lineage, NewFact
from db.databases import connected
from memory.tenants import PROVING, act


@pytest.fixture
async def intruder(memory, lineage, stranger, worker_access):
    """A bare connection of the login, where two tenants have each stored something."""
    for who in (lineage, stranger):
        await remember.store_fact(memory, NewFact("Ann", "likes", "secret"), who)
    async with connected(worker_access.owner_dsn) as owner:
        PROVING.append(await read_keys(owner))
    async with connected(worker_access.runtime_dsn) as connection:
        yield connection


async def said(connection, tenant, actor="tester", proof=""):
    """What a statement alone can say."""
    for name, value in (("tenant", tenant), ("actor", actor), ("proof", proof)):
        await connection.execute("select set_config($1, $2, false)", f"butlers.{name}", value)


COUNT = "select count(*) from facts"


@pytest.mark.contract("L1", "R29.2")
async def test_to_name_a_tenant_is_not_enough(intruder):
    for proof in ("", "0" * 64, hashlib.sha256(b"rival").hexdigest()):
        await said(intruder, "rival", proof=proof)
        assert await intruder.fetchval(COUNT) == 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="not proven"):
            await intruder.fetch("select act_for('rival', 'tester', $1)", proof)
        assert (
            await intruder.fetch(
                "select * from load_memories('rival', $1, $2, now(), null, null)",
                ["fact"],
                [uuid.uuid4()],
            )
            == []
        )
        found = await intruder.fetchrow("select * from tenant_profile('rival')")
        assert (found["names"], found["memories"]) == ([], 0)


@pytest.mark.contract("L1", "R29.2")
async def test_a_proof_serves_one_tenant_one_actor_and_one_connection(intruder, worker_access):
    backend = intruder.get_server_pid()
    proof = PROVING[-1].proof("acme", "tester", backend)
    await said(intruder, "acme", proof=proof)
    assert await intruder.fetchval(COUNT) == 1
    for tenant, actor in (("rival", "tester"), ("acme", "operator"), ("acmetester", "")):
        await said(intruder, tenant, actor, proof)
        assert await intruder.fetchval(COUNT) == 0
    async with connected(worker_access.runtime_dsn) as another:
        await said(another, "acme", proof=proof)
        assert await another.fetchval(COUNT) == 0


@pytest.mark.contract("L1", "R29.2")
async def test_a_proof_bound_to_no_connection_serves_only_where_the_owner_says_so(
    intruder, worker_access, owner
):
    bound = PROVING[-1].proof("acme", "tester", intruder.get_server_pid())
    free = replace(PROVING[-1], unbound=True).proof("acme", "tester", intruder.get_server_pid())
    for unbound, proof, rows in ((False, free, 0), (True, free, 1), (True, bound, 1)):
        await owner.execute("update tenant_key set unbound = $1", unbound)
        await said(intruder, "acme", proof=proof)
        assert await intruder.fetchval(COUNT) == rows
        await said(intruder, "rival", proof=proof)
        assert await intruder.fetchval(COUNT) == 0
    database = await Database.open(worker_access)
    try:
        async with database.transaction("acme") as tx:
            assert await tx._connection.fetchval(COUNT) == 1
            assert await tx._connection.fetchval("show butlers.proof") != free, "of another actor"
        # The owner proves on its own connection, and as the process does.
        assert await owner.fetchval("select tenant_proof('acme', 'tester')") == free
    finally:
        await database.close()
        await owner.execute("update tenant_key set unbound = false")


@pytest.mark.contract("N5.4", "L1")
async def test_an_event_is_told_by_whom_was_proven_and_by_nobody_else(intruder, owner):
    told = "select append_events('fact_retracted', null, 'fact', now(), $1, $1, array['{}'::jsonb])"
    id = uuid.uuid4()
    await said(intruder, "acme", "operator")
    with pytest.raises(asyncpg.NotNullViolationError):
        await intruder.fetchval(told, [id])
    async with intruder.transaction():
        await act(intruder, "acme", "tester")
        assert await intruder.fetchval(told, [id]) == 1
    row = await owner.fetchrow("select tenant_id, actor from memory_events where id = $1", id)
    assert tuple(row) == ("acme", "tester")


ABUSES = {
    "list tenants": "select tenant from memory_tenants",
    "read the keys": "select inner_key from tenant_key",
    "make a proof": "select tenant_proof('rival', 'tester')",
    "change the keys": "update tenant_key set inner_key = ''",
    "unbind the keys": "update tenant_key set unbound = true",
    "forge an event": "insert into memory_events (tenant_id, event_type) values ('acme', 'x')",
    "rewrite history": "update memory_events set actor = 'operator'",
    "delete history": "delete from memory_events",
    "empty history": "truncate memory_events",
    "forge the chain": "insert into memory_event_chain values ('acme', 9, null, false, '')",
    "rewrite the chain": "update memory_event_chain set hash = ''",
    "chain by hand": "select chain_events('rival', 0)",
    "tell for another": "insert into facts (tenant_id, subject, predicate, content) "
    "values ('rival', 'Ann', 'is', 'mine')",
    "replace the check": "create or replace function proven_tenant() returns text "
    "language sql as $$ select 'rival' $$",
    "make a function": "create function public.mine() returns int language sql as 'select 1'",
    "make a schema": "create schema mine",
    "make a table": "create table public.mine (id int)",
    "hide a table": "create temporary table facts (id int)",
    "become the owner": "set role postgres",
    "change sessions": "set session authorization postgres",
    "skip triggers": "set session_replication_role = replica",
    "drop the policy": "drop policy facts_own_tenant on facts",
    "switch it off": "alter table facts disable row level security",
    "read a file": "select pg_read_file('/etc/passwd')",
    "list a directory": "select pg_ls_dir('/')",
    "run a program": "copy (select 1) to program 'cat'",
    "write a file": "copy (select 1) to '/tmp/mine'",
    "load a library": "load 'plpgsql_check'",
    "keep a large object": "select lo_from_bytea(0, 'mine')",
    "make a large object": "select lo_create(0)",
    "end another's work": "select pg_terminate_backend(pg_backend_pid())",
    "install something": "create extension dblink",
    "vouch for a function": "alter function proven_tenant() leakproof",
    "take over": "alter role postgres password 'mine'",
    "look into the server": "alter system set log_statement = 'all'",
}


@pytest.mark.contract("L1", "N5.4")
@pytest.mark.parametrize("statement", ABUSES.values(), ids=ABUSES)
async def test_an_abuse_is_refused(intruder, statement):
    await said(
        intruder, "acme", proof=PROVING[-1].proof("acme", "tester", intruder.get_server_pid())
    )
    with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedFileError)):
        await intruder.execute(statement)


async def test_a_tenant_is_told_of_no_other(intruder, database):
    for tenant, names in (("acme", []), ("", ["acme", "rival"])):
        async with intruder.transaction():
            await act(intruder, tenant)
            rows = await intruder.fetch("select memory_tenant_names() as name")
            assert [row["name"] for row in rows] == names
    assert await intruder.fetch("select memory_tenant_names()") == []
    assert await database.tenants() == ["acme", "rival"]


@pytest.mark.contract("L1")
async def test_a_login_enters_no_other_butlers_database(postgres, worker_access, intruder):
    other = f"other_{uuid.uuid4().hex[:8]}"
    await provision(postgres.dsn(), other, sign_in=True)
    await provision(postgres.dsn(), other, sign_in=True)
    login = await intruder.fetchval("select current_user")
    try:
        async with connected(postgres.dsn(other, login_of(other))) as its_own:
            asked = "select query from pg_stat_activity where usename = $1"
            rows = await its_own.fetch(asked, login)
            assert {row["query"] for row in rows} == {"<insufficient privilege>"}
        for database, user in (
            (other, login),
            ("postgres", login),
            ("template1", login),
            (other, "butlers_runtime"),
        ):
            with pytest.raises(
                (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidAuthorizationSpecificationError)
            ):
                await asyncpg.connect(postgres.dsn(database, user))
    finally:
        async with connected(postgres.dsn()) as connection:
            await connection.execute(f"drop database {other} with (force)")
            await connection.execute(f"drop role {login_of(other)}")


async def test_keys_that_are_not_the_databases_open_nothing(worker_access, intruder):
    database = await Database.open(Access(worker_access.owner_dsn, worker_access.runtime_dsn))
    database._keys = type(database._keys)(b"other", b"keys")
    try:
        with pytest.raises(IntegrityViolation, match="not proven"):
            async with database.transaction("acme"):
                pass
    finally:
        await database.close()


async def test_an_event_on_somebody_elses_behalf_is_a_fault_of_ours(memory, lineage):
    async with memory.begin(lineage) as work:
        with pytest.raises(TypeError, match="actor"):
            await remember.store_fact_in(
                replace(work, lineage=Lineage("acme", "operator")),
                NewFact("Ann", "is", "x"),
                *await memory.embed(["x"], lineage),
            )
