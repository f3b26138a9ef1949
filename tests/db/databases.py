"""Databases of a test's own, and what their catalogs say."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from butlers.db import pool
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.postgres import Access, Database


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection, closed again."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def planning(access: Access, settings: dict[str, str]) -> AsyncIterator[Database]:
    """A database whose connections have settings of their own: how to plan, how far to look."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setitem(pool._STARTUP_SETTINGS, name, value)
        database = await Database.open(access)
    try:
        yield database
    finally:
        await database.close()


# These tables and those that refer to them, where there is anything in their files.
_FILLED = """
    with recursive named (id) as (
      select unnest(string_to_array($1, ', ')::regclass[])::oid
      union select conrelid from pg_constraint join named on confrelid = id where contype = 'f'
    )
    select id::regclass::text as name, pg_relation_size(id) > 16 * 8192 as is_large from named
    where pg_relation_size(id) > 0
"""


async def emptied(owner: asyncpg.Connection, tables: str) -> None:
    """Empty these tables, those that keep history too.

    A truncated table has new files for itself and every index, and whoever has planned a statement
    over it plans again: for a few rows, deleting them costs a fraction of it.
    """
    if await owner.fetchval(_IS_CLUSTER):
        await owner.fetch(_EMPTY_SHARDS)
    async with owner.transaction():
        await owner.execute("set local session_replication_role = replica")
        for name, is_large in await owner.fetch(_FILLED, tables):
            await owner.execute(f"truncate {name} cascade" if is_large else f"delete from {name}")


# The same on the nodes of a cluster, each of which empties what it has of any table.
_EMPTY_SHARDS = """
    select run_command_on_workers($said$
      do $$
        declare shard regclass;
        begin
          set local session_replication_role = replica;
          set local citus.enable_manual_changes_to_shards = on;
          for shard in select c.oid::regclass from pg_class c
            where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
              and c.relname ~ '_[0-9]{6}$' and pg_relation_size(c.oid) > 0
          loop
            execute format('delete from %s', shard);
          end loop;
        end
      $$
    $said$)
"""
_IS_CLUSTER = "select exists (select from pg_extension where extname = 'citus')"


async def until_waiting(onlooker: asyncpg.Connection, how_many: int = 1) -> None:
    """Return once so many statements of this database wait for a lock."""
    async with asyncio.timeout(10):
        while await onlooker.fetchval(
            "select count(*) < $1 from pg_stat_activity "
            "where datname = current_database() and wait_event_type = 'Lock'",
            how_many,
        ):
            await asyncio.sleep(0.01)


async def the_dead_let_go(onlooker: asyncpg.Connection) -> None:
    """The server notices that a client is gone, and undoes what it had not committed.

    What a server does by itself, as a cluster's for each database, is nobody's to let go of.
    """
    async with asyncio.timeout(20):
        while await onlooker.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and backend_type = 'client backend' "
            "and state is distinct from 'idle'"
        ):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def fresh_database(
    postgres: EmbeddedPostgres, template: str = "template0", owner: str = "postgres"
) -> AsyncIterator[str]:
    """The name of a new database, dropped again."""
    name = f"fresh_{uuid.uuid4().hex[:12]}"
    async with connected(postgres.dsn()) as connection:
        await connection.execute(f'create database "{name}" template "{template}" owner "{owner}"')
        try:
            yield name
        finally:
            await connection.execute(f'drop database "{name}" with (force)')


@asynccontextmanager
async def fresh_role(postgres: EmbeddedPostgres, powers: str = "") -> AsyncIterator[str]:
    """A login that is no superuser, dropped again with everything it was granted."""
    name = f"role_{uuid.uuid4().hex[:12]}"
    async with connected(postgres.dsn()) as connection:
        await connection.execute(f"create role {name} login {powers}")
        await connection.execute(f"grant connect on database postgres to {name}")
        try:
            yield name
        finally:
            await connection.execute(f"drop owned by {name}")
            await connection.execute(f"drop role {name}")


_CATALOGS = {
    "relations": """
        select relname, relkind::text, reloptions::text,
          coalesce(
            relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner)
          )::text,
          relrowsecurity, relforcerowsecurity, relowner::regrole::text,
          obj_description(oid, 'pg_class')
        from pg_class where relnamespace = 'public'::regnamespace order by 1
    """,
    "columns": """
        select attrelid::regclass::text, row_number() over (partition by attrelid order by attnum),
          attname, format_type(atttypid, atttypmod), attnotnull, attstorage::text,
          attcollation::regcollation::text, attidentity::text, attgenerated::text,
          pg_get_expr(adbin, adrelid)
        from pg_attribute join pg_class c on c.oid = attrelid
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'v', 'c')
          and attnum > 0 and not attisdropped
        order by 1, 2
    """,
    "indexes": "select indexdef from pg_indexes where schemaname = 'public' order by 1",
    "constraints": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated
        from pg_constraint where connamespace = 'public'::regnamespace order by 1, 2, 3
    """,
    "policies": """
        select tablename, policyname, permissive, roles::text, cmd, qual, with_check
        from pg_policies where schemaname = 'public' order by 1, 2
    """,
    "triggers": """
        select pg_get_triggerdef(oid), tgenabled::text from pg_trigger
        where not tgisinternal order by 1
    """,
    "views": "select viewname, definition from pg_views where schemaname = 'public' order by 1",
    "sequences": """
        select sequencename, data_type::text, start_value, increment_by from pg_sequences
        where schemaname = 'public' order by 1
    """,
    "functions": """
        select p.oid::regprocedure::text,
          regexp_replace(pg_get_functiondef(p.oid), '\\s+', ' ', 'g'),
          coalesce(proacl, acldefault('f', proowner))::text, proowner::regrole::text
        from pg_proc p
        where pronamespace = 'public'::regnamespace and prokind = 'f' and not exists (
          select from pg_depend d where d.objid = p.oid and d.deptype = 'e'
        ) order by 1
    """,
    "leakproof": "select proleakproof from pg_proc where proname = 'ts_match_vq'",
    "extensions": "select extname, extnamespace::regnamespace::text from pg_extension order by 1",
    "revisions": "select version_num from alembic_version order by 1",
}


async def catalog(connection: asyncpg.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Everything the catalogs say about the schema, to be compared."""
    return {
        name: [tuple(row.values()) for row in await connection.fetch(query)]
        for name, query in _CATALOGS.items()
    }
