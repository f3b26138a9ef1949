"""Tenants are kept apart by the database itself, whatever the code above it does."""

import json
import uuid

import asyncpg
import pytest

from butlers.db.login import RUNTIME_ROLE
from butlers.db.tenant_proof import read_keys
from db.databases import connected, fresh_role
from memory.tenants import (
    APPEND_ONLY,
    CHAIN,
    DERIVED,
    PROVING,
    TENANTS,
    VECTORS,
    act,
    acting_for,
    by_hand,
    id_of,
    insert,
    rows_touched,
    samples,
    tenant_tables,
)


@pytest.fixture
async def filled(owner):
    """Both tenants have a row in every table."""
    for tenant in TENANTS:
        for table, row in samples(tenant).items():
            await insert(owner, table, row)
    return owner


@pytest.fixture
async def runtime(worker_access):
    """A bare connection of the role that serves requests."""
    async with connected(worker_access.owner_dsn) as connection:
        PROVING.append(await read_keys(connection))
    async with connected(worker_access.runtime_dsn) as connection:
        yield connection


@pytest.mark.contract("L1", "R29.2")
async def test_every_table_with_a_tenant_forces_its_policy(owner):
    tables = await tenant_tables(owner)
    assert set(tables) == {*samples("acme"), *DERIVED, CHAIN}, "a new table needs a sample row here"
    rows = await owner.fetch(
        "select relname, relrowsecurity, relforcerowsecurity, polcmd::text, polpermissive, "
        "polroles::text, pg_get_expr(polqual, polrelid) as sees, "
        "pg_get_expr(polwithcheck, polrelid) as writes "
        "from pg_class left join pg_policy on polrelid = pg_class.oid "
        "where relname = any($1) order by 1",
        tables,
    )
    own = "(tenant_id = ( SELECT proven_tenant() AS proven_tenant))"
    assert [tuple(row.values()) for row in rows] == [
        (table, True, True, "*", True, "{0}", own, own) for table in tables
    ]


@pytest.mark.contract("L1")
async def test_the_runtime_role_owns_nothing_and_has_no_powers(owner):
    powers = await owner.fetchrow(
        "select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication "
        "from pg_roles where rolname = $1",
        RUNTIME_ROLE,
    )
    assert set(powers.values()) == {False}
    assert not await owner.fetch(
        "select 1 from pg_shdepend where refclassid = 'pg_authid'::regclass "
        "and refobjid = $1::text::regrole and deptype = 'o'",
        RUNTIME_ROLE,
    )
    assert not await owner.fetch(
        "select 1 from pg_auth_members where member = $1::text::regrole", RUNTIME_ROLE
    )


@pytest.mark.contract("L1")
async def test_the_runtime_role_may_do_only_what_the_product_does(owner):
    rows = await owner.fetch(
        "select table_name, string_agg(privilege_type, ' ' order by privilege_type) as rights "
        "from information_schema.role_table_grants where grantee in ($1, 'PUBLIC') "
        "and table_schema = 'public' and table_name not like 'pg_%' group by 1 order by 1",
        RUNTIME_ROLE,
    )
    expected = dict.fromkeys(samples("acme"), "INSERT SELECT UPDATE")
    expected |= {"memory_events": "SELECT", "rule_applications": "INSERT SELECT"}
    expected |= dict.fromkeys((*VECTORS, "memory_claims"), "DELETE INSERT SELECT")
    deleted = ("episodes", "memory_links", "memory_predicates")
    expected |= dict.fromkeys(deleted, "DELETE INSERT SELECT UPDATE")
    expected |= dict.fromkeys((*DERIVED, "binned_episodes"), "DELETE INSERT SELECT")
    expected["index_memories"] = "DELETE INSERT SELECT UPDATE"
    expected["index_names"] = "INSERT SELECT"
    expected[CHAIN] = "SELECT"
    expected |= dict.fromkeys(("indexed_memories", "indexed_vectors"), "SELECT")
    assert {row["table_name"]: row["rights"] for row in rows} == expected


@pytest.mark.contract("L1")
@pytest.mark.parametrize(
    "statement",
    [
        "create table public.mine (id int)",
        "alter table facts disable row level security",
        "drop policy facts_own_tenant on facts",
        "alter table memory_events disable trigger all",
        "set session_replication_role = replica",
        "set role postgres",
        "select * from alembic_version",
        "create function public.f() returns int language sql as 'select 1'",
    ],
)
async def test_the_runtime_role_cannot_undo_the_walls(runtime, statement):
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await runtime.execute(statement)


@pytest.mark.contract("L1", "R29.2", "N4.3")
async def test_without_a_tenant_nothing_is_there(filled, runtime):
    for tenant in (None, "", "nobody"):
        async with acting_for(runtime, tenant):
            for table in await tenant_tables(filled):
                assert await runtime.fetchval(f"select count(*) from {table}") == 0, table


@pytest.mark.contract("L1", "R29.1", "R29.2")
async def test_a_tenant_sees_its_own_rows_alone(filled, runtime):
    for table in await tenant_tables(filled):
        theirs = f"select count(*) from {table} where tenant_id = $1"
        assert await filled.fetchval(theirs, "rival") > 0, table
        async with acting_for(runtime, "acme"):
            rows = await runtime.fetch(f"select tenant_id from {table}")
            assert {row["tenant_id"] for row in rows} == {"acme"}, table
            assert len(rows) == await filled.fetchval(theirs, "acme")
            others = f"select count(*) from {table} where tenant_id = 'rival'"
            assert await runtime.fetchval(others) == 0


@pytest.mark.contract("L1", "R29.2")
async def test_a_tenant_cannot_change_or_delete_anothers_rows(filled, runtime):
    for table in await tenant_tables(filled):
        before = await filled.fetchval(f"select count(*) from {table}")
        for statement in (
            f"update {table} set tenant_id = tenant_id where tenant_id = 'rival'",
            f"delete from {table} where tenant_id = 'rival'",
        ):
            async with acting_for(runtime, "acme"):
                assert await rows_touched(runtime, statement) in ("no right", 0), statement
        assert await filled.fetchval(f"select count(*) from {table}") == before


@pytest.mark.contract("L1", "R29.1", "R29.2")
async def test_a_tenant_cannot_write_for_another(owner, runtime):
    for tenant in TENANTS:
        for table, row in by_hand(tenant).items():
            async with acting_for(runtime, "acme"):
                if tenant == "acme":
                    for earlier, needed in by_hand(tenant).items():
                        if earlier == table:
                            break
                        await insert(runtime, earlier, needed)
                    await insert(runtime, table, row)
                else:
                    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level"):
                        await insert(runtime, table, row)


@pytest.mark.contract("L1", "R29.2")
async def test_a_tenant_cannot_hand_its_rows_to_another(filled, runtime):
    for table in await tenant_tables(filled):
        async with acting_for(runtime, "acme"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await runtime.execute(f"update {table} set tenant_id = 'rival'")


@pytest.mark.contract("L1", "R29.2")
async def test_taken_names_and_ids_of_another_are_no_door(filled, runtime):
    """An upsert on another tenant's row neither shows nor changes it."""
    async with acting_for(runtime, "acme"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await runtime.execute(
                "insert into rules (id, tenant_id, content) values ($1, 'acme', 'mine now') "
                "on conflict (id) do update set content = excluded.content",
                id_of("rival", "rules"),
            )
    assert await filled.fetchval("select count(*) from rules where content = 'mine now'") == 0


REFERENCES = [
    ("facts", "entity_id", "entities"),
    ("facts", "source_episode_id", "episodes"),
    ("facts", "supersedes_id", "facts"),
    ("facts", "embedding_version_id", "embedding_versions"),
    ("rules", "source_episode_id", "episodes"),
    ("rules", "embedding_version_id", "embedding_versions"),
    ("episodes", "embedding_version_id", "embedding_versions"),
    ("rule_applications", "rule_id", "rules"),
    ("projects", "moved_to", "projects"),
    ("memory_conflicts", "newer_id", "facts"),
    ("memory_conflicts", "older_id", "facts"),
    *((f"{noun}_vectors", f"{noun}_id", f"{noun}s") for noun in ("episode", "fact", "rule")),
    *((table, "embedding_version_id", "embedding_versions") for table in VECTORS),
]


@pytest.mark.contract("L1", "N5.4")
async def test_every_reference_is_known_to_the_tests(owner):
    rows = await owner.fetch(
        "select conrelid::regclass::text as source, confrelid::regclass::text as target, "
        "(select attname from pg_attribute where attrelid = conrelid "
        " and attnum = conkey[array_length(conkey, 1)]) as name, "
        "array_length(conkey, 1) as width "
        "from pg_constraint where contype = 'f' and connamespace = 'public'::regnamespace"
    )
    pairs = {(row["source"], row["name"], row["target"]) for row in rows if row["width"] == 2}
    assert pairs == set(REFERENCES)
    assert {(row["source"], row["name"], row["target"]) for row in rows} == pairs


@pytest.mark.contract("L1", "N5.4", "R29.2")
@pytest.mark.parametrize(("table", "column", "target"), REFERENCES)
async def test_a_reference_cannot_cross_tenants(filled, table, column, target):
    """Not even the owner, whom no policy stops, can make one."""
    if table in (
        *VECTORS,
        "memory_conflicts",
    ):  # its key is what it refers to: make room for the row that is refused
        await filled.execute(f"delete from {table}")
    row = {
        **samples("acme")[table],
        "id": str(uuid.uuid4()),
        "subject": "Bo",
        column: str(id_of("rival", target)),
        "embedding": json.dumps([1.0] * 384)
        if column == "embedding_version_id" or table in VECTORS
        else None,
    }
    columns = await filled.fetch(
        "select attname from pg_attribute where attrelid = $1::text::regclass", table
    )
    known = {record["attname"] for record in columns}
    row = {name: value for name, value in row.items() if name in known}
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await insert(filled, table, row)
    await insert(filled, table, {**row, column: str(id_of("acme", target))})


@pytest.mark.contract("N5.4", "L1")
@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize("action", ["update {} set created_at = created_at", "delete from {}"])
async def test_history_cannot_be_rewritten(filled, runtime, table, action):
    statement = action.format(table)
    async with acting_for(runtime, "acme"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await runtime.execute(statement)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
        await filled.execute(statement)
    assert await filled.fetchval(f"select count(*) from {table}") == 2


@pytest.mark.contract("N5.4", "L1")
async def test_the_runtime_role_cannot_empty_a_table(filled, runtime):
    for table in await tenant_tables(filled):
        async with acting_for(runtime, "acme"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await runtime.execute(f"truncate {table} cascade")


@pytest.mark.contract("N5.4")
async def test_a_rule_with_history_cannot_be_deleted_from_under_it(filled):
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await filled.execute("delete from rules")


@pytest.mark.contract("L1")
async def test_nobody_is_no_tenant(owner, runtime):
    for table, row in by_hand("").items():
        with pytest.raises(asyncpg.CheckViolationError, match="tenant_named"):
            await insert(owner, table, row)
        async with acting_for(runtime, ""):
            with pytest.raises(asyncpg.CheckViolationError):
                await insert(runtime, table, row)


@pytest.mark.contract("L1", "N4.3")
async def test_workers_learn_of_tenants_through_one_function_alone(filled, runtime, database):
    for statement in (
        "select tenant from memory_tenants",
        "insert into memory_tenants values ('x')",
        "delete from memory_tenants",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await runtime.execute(statement)
    assert await database.tenants() == ["acme", "rival"]


@pytest.mark.contract("L1", "N4.3")
@pytest.mark.parametrize("table", ["entities", "episodes", "facts", "rules"])
async def test_a_tenant_is_known_from_its_first_row(owner, runtime, database, table):
    async with runtime.transaction():
        await act(runtime, "newcomer")
        await insert(runtime, table, samples("newcomer")[table])
    assert await database.tenants() == ["newcomer"]


@pytest.mark.contract("L1")
async def test_a_stranger_to_the_role_may_not_list_tenants(postgres, worker_access, owner):
    async with fresh_role(postgres) as somebody:
        name = await owner.fetchval("select current_database()")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await asyncpg.connect(postgres.dsn(name, somebody))
        await owner.execute(f"grant connect on database {name} to {somebody}")
        async with connected(postgres.dsn(name, somebody)) as connection:
            for statement in ("select memory_tenant_names()", "select * from facts"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.fetch(statement)


INDEX_ROWS = {
    "index_memories": "memory_type, memory_id, shown, scope, confidence, decay_rate, created_at, "
    "length) values ($1, 'fact', gen_random_uuid(), true, 'global', 1, 0, now(), 1",
    "index_words": "word, doc, impact, place) values ($1, 'word', 1, 1, 1",
    "index_vectors": "version_id, doc, embedding) values ($1, gen_random_uuid(), 1, "
    "array_fill(1, array[384])::real[]::vector::halfvec",
    "index_names": "name) values ($1, 'ann'",
}


@pytest.mark.contract("L1", "R29.2")
@pytest.mark.parametrize("table", DERIVED)
async def test_the_index_takes_no_rows_for_another_tenant_or_for_nobody(owner, runtime, table):
    statement = f"insert into {table} (tenant_id, {INDEX_ROWS[table]})"
    async with acting_for(runtime, "acme"):
        await runtime.execute(statement, "acme")
    async with acting_for(runtime, "acme"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level"):
            await runtime.execute(statement, "rival")
    with pytest.raises(asyncpg.CheckViolationError, match="tenant_named"):
        await owner.execute(statement, "")


async def test_words_are_looked_up_by_their_index_under_the_policy(filled, runtime):
    """Comparing words cannot leak what a row says, so no superuser has to vouch for it."""
    await filled.execute(
        "insert into facts (tenant_id, subject, predicate, content, search_vector) "
        "select 'acme', n::text, 'is', 'x', to_tsvector('simple', 'word' || n) "
        "from generate_series(1, 4000) n"
    )
    await filled.execute("vacuum analyze index_words")
    for condition, used in (
        ("word = any(array['word17', 'word18'])", "word = ANY"),
        ("word >= 'word1' and word < 'word2'", "word >= 'word1'"),
    ):
        async with acting_for(runtime, "acme"):
            rows = await runtime.fetch(
                f"explain select doc from index_words where tenant_id = 'acme' and {condition}"
            )
        plan = "\n".join(row[0] for row in rows)
        assert "Index Only Scan using index_words_pkey" in plan
        assert used in plan.partition("Index Cond")[2]
