"""The database as flows use it: one tenant per transaction, errors of our own."""

import asyncio
import uuid

import asyncpg
import pytest

from butlers.db.driver_errors import translated_errors
from butlers.db.postgres import Access, Database
from butlers.db.provision import RUNTIME_ROLE
from butlers.db.queries import parse
from butlers.db.statements import FirstRow, FirstValue, OnlyRow, OnlyValue, Rows, Touched
from butlers.errors import Away, Conflict, IntegrityViolation, InvalidInput, Unavailable
from db.databases import connected, fresh_database

SQL = parse(
    """
-- insert --
-- A tiny entity.
insert into entities (id, tenant_id, canonical_name, entity_type)
values (:id, :tenant_id, :name, :type)

-- insert_for --
-- A tiny entity of any tenant.
insert into entities (id, tenant_id, canonical_name, entity_type)
values (:id, :tenant, :name, :type)

-- names --
-- All names.
select canonical_name from entities order by canonical_name

-- rename --
-- Every name becomes one.
update entities set aliases = array[:alias]

-- tenant --
-- Whom this connection acts for.
select current_setting('butlers.tenant', true)

-- echo --
-- A value of a type only the vector codec knows.
select :vector::vector as vector, :tree::jsonb as tree

-- number --
-- Takes a number only.
select :number::int

-- nap --
-- Takes its time.
select pg_sleep(:seconds)

-- lock --
-- One entity, held.
select id from entities where id = :id for update
"""
)


def entity(name="Ann", kind="person"):
    return {"id": uuid.uuid4(), "name": name, "type": kind}


@pytest.mark.contract("L1")
async def test_a_transaction_acts_for_its_tenant_and_no_longer(worker_access, owner):
    database = await Database.open(worker_access, pool_min=1, pool_max=1)
    try:
        async with database.transaction("acme") as tx:
            assert tx.tenant_id == "acme"
            assert await tx.fetch_value(SQL["tenant"]) == "acme"
            assert await tx.execute(SQL["insert"], **entity()) == 1
        async with database.transaction("rival") as tx:
            assert await tx.fetch(SQL["names"]) == []
        leftover = await database._pool.pool.fetchval(SQL["tenant"].positional)
        assert not leftover
        assert await database._pool.pool.fetchval("select count(*) from entities") == 0
    finally:
        await database.close()


@pytest.mark.contract("L1")
@pytest.mark.parametrize("method", ["fetch", "fetch_one", "fetch_value", "execute"])
async def test_the_tenant_of_a_statement_is_the_transactions_and_nobody_says_another(
    database, owner, method
):
    async with database.transaction("acme") as tx:
        await getattr(tx, method)(SQL["insert"], **entity())
        for tenant in ("rival", "acme"):
            with pytest.raises(TypeError, match="the transaction sets it"):
                await getattr(tx, method)(SQL["insert"], tenant_id=tenant, **entity("Bo"))
    assert [tuple(row) for row in await owner.fetch("select tenant_id from entities")] == [
        ("acme",)
    ]


async def test_a_statement_is_a_function_of_what_is_wanted_of_its_answer(database):
    insert, names = Touched(SQL["insert"]), SQL["names"]
    async with database.transaction("acme") as tx:
        assert await FirstRow(names)(tx) is None
        assert await FirstValue[str](names)(tx) is None
        with pytest.raises(AssertionError, match="names always has a row"):
            await OnlyRow(names)(tx)
        assert await insert(tx, **entity("Bo")) == await insert(tx, **entity("Al")) == 1
        assert [row["canonical_name"] for row in await Rows(names)(tx)] == ["Al", "Bo"]
        for row in (await FirstRow(names)(tx), await OnlyRow(names)(tx)):
            assert dict(row) == {"canonical_name": "Al"}
        assert await FirstValue[str](names)(tx) == await OnlyValue[str](names)(tx) == "Al"
        with pytest.raises(TypeError, match="insert takes"):
            await insert(tx, name="Cy")
        with pytest.raises(TypeError, match="names takes"):
            await Rows(names)(tx, surplus=1)


async def test_answers_come_as_rows_a_row_a_value_and_a_count(database):
    async with database.transaction("acme") as tx:
        for name in ("Bo", "Al"):
            await tx.execute(SQL["insert"], **entity(name))
        assert [row["canonical_name"] for row in await tx.fetch(SQL["names"])] == ["Al", "Bo"]
        first = await tx.fetch_one(SQL["names"])
        assert first is not None and dict(first) == {"canonical_name": "Al"}
        assert await tx.fetch_value(SQL["names"]) == "Al"
        assert await tx.execute(SQL["rename"], alias="x") == 2
    async with database.transaction("rival") as tx:
        assert await tx.fetch_one(SQL["names"]) is None
        assert await tx.fetch_value(SQL["names"]) is None
        assert await tx.execute(SQL["rename"], alias="y") == 0


async def test_vectors_and_json_travel_as_values(database):
    async with database.transaction("acme") as tx:
        row = await tx.fetch_one(SQL["echo"], vector=[0.5, 1.0], tree={"ü": [1, None]})
    assert list(row["vector"].to_numpy()) == [0.5, 1.0]
    assert row["tree"] == {"ü": [1, None]}


async def test_an_error_undoes_the_transaction(database, owner):
    with pytest.raises(RuntimeError):
        async with database.transaction("acme") as tx:
            await tx.execute(SQL["insert"], **entity())
            raise RuntimeError
    assert await owner.fetchval("select count(*) from entities") == 0


async def test_a_savepoint_is_undone_alone(database):
    async with database.transaction("acme") as tx:
        await tx.execute(SQL["insert"], **entity("kept"))
        with pytest.raises(asyncpg.CheckViolationError):
            async with tx.savepoint():
                await tx.execute(SQL["insert"], **entity("lost", kind="ghost"))
        assert await tx.fetch_value(SQL["names"]) == "kept"


async def test_clashes_are_conflicts(database):
    async with database.transaction("acme") as tx:
        await tx.execute(SQL["insert"], **entity("Ann Secret"))
    with pytest.raises(Conflict) as clash:
        async with database.transaction("acme") as tx:
            await tx.execute(SQL["insert"], **entity("Ann Secret"))
    assert "Secret" not in str(clash.value)


async def test_a_deadlock_is_a_conflict_for_one_of_the_two(database):
    one, two = entity("one"), entity("two")
    async with database.transaction("acme") as tx:
        for new in (one, two):
            await tx.execute(SQL["insert"], **new)
    both_hold = asyncio.Barrier(2)

    async def lock(first, second):
        async with database.transaction("acme") as tx:
            await tx.fetch_one(SQL["lock"], id=first["id"])
            await both_hold.wait()
            await tx.fetch_one(SQL["lock"], id=second["id"])

    outcomes = await asyncio.gather(lock(one, two), lock(two, one), return_exceptions=True)
    assert sorted(type(outcome) for outcome in outcomes if outcome) == [Conflict]


async def test_a_broken_invariant_is_an_integrity_violation(database):
    with pytest.raises(IntegrityViolation, match="entities_entity_type"):
        async with database.transaction("acme") as tx:
            await tx.execute(SQL["insert"], **entity(kind="ghost"))
    with pytest.raises(IntegrityViolation, match="row-level security"):
        async with database.transaction("acme") as tx:
            await tx.execute(SQL["insert_for"], tenant="rival", **entity())


async def test_a_value_the_database_cannot_hold_is_invalid_input(database):
    with pytest.raises(InvalidInput, match="cannot hold"):
        async with database.transaction("acme") as tx:
            await tx.execute(SQL["insert"], **entity("nul \x00 byte"))


async def test_a_value_of_the_wrong_type_is_not_called_an_outage(database):
    with pytest.raises(InvalidInput, match="query argument"):
        async with database.transaction("acme") as tx:
            await tx.fetch(SQL["number"], number="three")


async def test_a_server_that_is_not_there_is_unavailable(tmp_path):
    nowhere = f"postgresql://postgres@/postgres?host={tmp_path}"
    with pytest.raises(Unavailable, match="does not answer"):
        await Database.open(Access(nowhere, nowhere))


@pytest.mark.parametrize("change", [{"database": "no_such_database"}, {"user": "no_such_user"}])
async def test_a_wrong_name_is_unavailable_and_said(postgres, change):
    dsn = postgres.dsn(**change)
    with pytest.raises(Unavailable, match="no_such_"):
        await Database.open(Access(dsn, dsn))


async def test_a_malformed_address_is_unavailable(worker_access):
    for access in ("nonsense://x:y", "nonsense://x:y"), (worker_access.owner_dsn, "nonsense://x:y"):
        with pytest.raises(Unavailable, match="cannot be used"):
            await Database.open(Access(*access))


async def test_a_statement_that_takes_too_long_is_unavailable(worker_access, owner):
    database = await Database.open(worker_access, timeout=0.2)
    try:
        with pytest.raises(Unavailable):
            async with database.transaction("acme") as tx:
                await tx.fetch(SQL["nap"], seconds=5)
    finally:
        await database.close()


async def test_a_connection_cut_by_the_server_is_unavailable_and_the_next_works(
    worker_access, owner
):
    database = await Database.open(worker_access, pool_max=1)
    try:
        with pytest.raises(Unavailable):
            async with database.transaction("acme") as tx:
                await owner.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where state = 'idle in transaction' and datname = current_database()"
                )
                await tx.fetch(SQL["names"])
        await database.ping()
    finally:
        await database.close()


async def test_a_connection_to_a_server_that_takes_no_more_writes_is_not_used_again(worker_access):
    """Else a caller would meet the old primary again after another server has taken over."""
    database = await Database.open(worker_access, pool_max=1)
    try:
        async with database.transaction("acme") as tx:
            before = tx._connection.get_server_pid()
        said = "takes no writes: .*standby.*default_transaction_read_only"
        with pytest.raises(Away, match=said) as refused:
            async with database.transaction("acme") as tx:
                assert tx._connection.get_server_pid() == before
                await tx._connection.execute("set transaction read only")
                await tx.execute(SQL["insert"], **entity())
        assert "INSERT" not in str(refused.value)
        async with database.transaction("acme") as tx:
            assert tx._connection.get_server_pid() != before
    finally:
        await database.close()


async def test_work_of_the_butler_itself_sees_no_tenant(database):
    async with database.transaction("acme") as tx:
        await tx.execute(SQL["insert"], **entity())
    async with database.system_transaction() as tx:
        assert not await tx.fetch_value(SQL["tenant"])
        assert await tx.fetch(SQL["names"]) == []
    assert await database.fetch(SQL["names"]) == []


async def test_a_transaction_that_was_cut_short_leaves_nothing_to_the_next(worker_access, owner):
    database = await Database.open(worker_access, pool_max=1)

    async def interrupted() -> None:
        async with database.transaction("acme") as tx:
            await tx.execute(SQL["insert"], **entity("Cut"))
            await tx.fetch(SQL["nap"], seconds=30)

    try:
        task = asyncio.create_task(interrupted())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with database.transaction("rival") as tx:
            assert await tx.fetch_value(SQL["tenant"]) == "rival"
        assert await owner.fetchval("select count(*) from entities where canonical_name='Cut'") == 0
    finally:
        await database.close()


async def test_a_server_without_a_connection_to_spare_is_waited_for(worker_access, owner):
    name = await owner.fetchval("select current_database()")
    database = await Database.open(worker_access, pool_min=1, pool_max=5)
    await owner.execute(f"alter database {name} connection limit 1")

    async def work() -> None:
        async with database.transaction("acme") as tx:
            await tx.fetch(SQL["nap"], seconds=0.2)

    try:
        await asyncio.gather(*(work() for _ in range(5)))
    finally:
        await owner.execute(f"alter database {name} connection limit -1")
        await database.close()


async def test_a_server_that_stays_full_is_unavailable(worker_access, owner, monkeypatch):
    monkeypatch.setattr("butlers.db.pool._PATIENCE_SECONDS", 0.2)
    name = await owner.fetchval("select current_database()")
    database = await Database.open(worker_access, pool_min=0, pool_max=2)
    await owner.execute(f"alter database {name} connection limit 0")
    try:
        with pytest.raises(Unavailable, match="too many connections"):
            await database.ping()
    finally:
        await owner.execute(f"alter database {name} connection limit -1")
        await database.close()


async def test_closing_cuts_what_stays_busy(worker_access, owner):
    database = await Database.open(worker_access, pool_max=1)
    nap = asyncio.create_task(database._pool.pool.fetch("select pg_sleep(30)"))
    await asyncio.sleep(0.2)
    async with asyncio.timeout(15):
        await database.close()
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await nap


async def test_settings_of_a_search_outlive_the_reset_of_a_connection(worker_access, owner):
    database = await Database.open(worker_access, pool_max=1)
    try:
        for _ in range(2):
            assert await database._pool.pool.fetchval("show jit") == "off"
            assert await database._pool.pool.fetchval("show timezone") == "UTC"
    finally:
        await database.close()


async def test_one_login_steps_down_to_the_role_and_stays_there(postgres, template):
    async with fresh_database(postgres, template) as name:
        dsn = postgres.dsn(name)
        database = await Database.open(Access(dsn, dsn, RUNTIME_ROLE), pool_max=1)
        try:
            for _ in range(2):
                assert await database._pool.pool.fetchval("select current_user") == RUNTIME_ROLE
        finally:
            await database.close()


async def test_an_error_of_another_kind_passes_unchanged(postgres):
    async with connected(postgres.dsn()) as connection:
        with pytest.raises(asyncpg.UndefinedTableError), translated_errors():
            await connection.fetch("select 1 from no_such_table")
