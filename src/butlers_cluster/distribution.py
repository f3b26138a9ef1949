"""Distribute tables over the nodes of a cluster: all rows of a tenant on one node."""

import re
from collections.abc import Sequence

import asyncpg
import structlog

from butlers import __version__
from butlers.db.driver_errors import brief
from butlers.db.migrate import current_revisions
from butlers.db.primary_connector import connected
from butlers.db.queries import load
from butlers.errors import Unavailable
from butlers_cluster.nodes import copy_keys_to_nodes, create_on_nodes, list_nodes

log = structlog.get_logger(__name__)

_SQL = load(__file__)
_MARK = "distributed: "
# Ends with a transaction: a pooler would keep what a session holds.
_LOCK = "select pg_advisory_xact_lock(hashtextextended('butlers.spread.' || $1, 0))"
_HAS_TENANTS = "select exists (select from memory_tenants)"
# The table that all others are placed beside.
_FIRST = "embedding_versions"
_EVENTS = "memory_events"
_VIEWS = ("indexed_memories", "indexed_vectors")
_SET_NULL = re.compile(r" ON DELETE SET NULL( \([^)]*\))?")


async def ensure_distributed(maintenance_dsn: str, dsn: str, database: str) -> bool:
    """Distribute an empty database of a server with nodes; return whether it is distributed.

    One that another version distributed is brought up to this one. One that was filled before
    there was a cluster stays where it is until `butlers db distribute` moves it. Processes that
    start at the same time take turns by a lock.
    """
    wanted = _MARK + " ".join([__version__, *await current_revisions(dsn)])
    async with connected(dsn) as owner:
        if await _mark(owner, database) == wanted:
            return True
        async with connected(maintenance_dsn) as coordinator, coordinator.transaction():
            if not await list_nodes(coordinator) and not await is_distributed(owner):
                return False
            await coordinator.execute(_LOCK, database)
            if await _mark(owner, database) == wanted:
                return True  # another process was quicker
            if not await is_distributed(owner) and await owner.fetchval(_HAS_TENANTS):
                log.info("the database is on one server; `butlers db distribute` distributes it")
                return False
            await _distribute(owner, maintenance_dsn, dsn, database)
            await owner.execute(f"comment on database \"{database}\" is '{wanted}'")
    return True


async def include_new_nodes(maintenance_dsn: str, dsn: str, database: str) -> None:
    """Let nodes that joined the cluster after the database was distributed hold its tenants."""
    async with (
        connected(dsn) as owner,
        connected(maintenance_dsn) as coordinator,
        coordinator.transaction(),
    ):
        await coordinator.execute(_LOCK, database)
        joined = set(await list_nodes(coordinator)) - set(await list_nodes(owner))
        if joined and await is_distributed(owner):
            log.info("nodes have joined", nodes=sorted(map(str, joined)))
            await _distribute(owner, maintenance_dsn, dsn, database)


async def is_distributed(connection: asyncpg.Connection) -> bool:
    """Return whether the tables of a database are distributed over nodes."""
    if not await connection.fetchval("select to_regclass('pg_dist_partition') is not null"):
        return False
    return bool(await connection.fetchval("select exists (select from pg_dist_partition)"))


async def _mark(owner: asyncpg.Connection, database: str) -> str | None:
    mark: str | None = await owner.fetchval(*_SQL["comment"].bound(database=database))
    return mark


async def _distribute(
    owner: asyncpg.Connection, maintenance_dsn: str, dsn: str, database: str
) -> None:
    try:
        await create_on_nodes(maintenance_dsn, dsn, database)
        await _distribute_tables(owner)
        await copy_keys_to_nodes(owner, dsn, database)
    except asyncpg.PostgresError as error:
        raise Unavailable(
            f"the database {database} could not be distributed over the nodes: {brief(error)}"
        ) from error


async def _distribute_tables(owner: asyncpg.Connection) -> None:
    """Distribute every table of tenants that is not yet, in one transaction; safe to repeat."""
    async with owner.transaction():
        await owner.execute("set local citus.enable_unsafe_triggers = on")
        await owner.execute("set local citus.multi_shard_modify_mode = sequential")
        await owner.execute("set local check_function_bodies = off")
        tables = await owner.fetch(_SQL["tenant_tables"].text)
        names = [*(table["name"] for table in tables), *_VIEWS]
        await _unbind_functions(owner, names)
        local = [table for table in tables if not table["is_distributed"]]
        if local:
            references = await _add_tenant_to_keys(owner, [table["name"] for table in local])
            for table in sorted(local, key=lambda table: table["name"] != _FIRST):
                await _distribute_table(owner, table["name"], table["tenant_column"])
            await _restore_references(owner, references)
            if _EVENTS in {table["name"] for table in local}:
                await owner.execute(_SQL["number_event"].text)
                await owner.execute(_SQL["number_events"].text)
        await owner.execute(_SQL["act_for"].text)
        await owner.execute(_SQL["settings"].text)
        await _create_functions_on_nodes(owner, names)


async def _unbind_functions(owner: asyncpg.Connection, tables: Sequence[str]) -> None:
    """Redefine functions to name the tables they read, since every node has other parts of them."""
    functions = await _functions(owner, tables)
    for function in functions:
        await owner.execute(_unbound(function))
    # Those that call others were created after them.
    for function in reversed(functions):
        if function["row_types"]:
            await owner.execute(f"drop function {function['name']}")


async def _functions(owner: asyncpg.Connection, tables: Sequence[str]) -> list[asyncpg.Record]:
    """Read the definition of every function of ours, all names in it with their schema."""
    await owner.execute("set local search_path = pg_catalog")
    functions: list[asyncpg.Record] = await owner.fetch(*_SQL["functions"].bound(tables=tables))
    await owner.execute("set local search_path = public")
    return functions


def _unbound(function: asyncpg.Record) -> str:
    """Return the definition of a function that knows tables by their names alone.

    One that reads tables becomes PL/pgSQL: only there is a plan made anew for the values of each
    call. A parameter that was a row of a table becomes one of any type, since parts of a table
    have types of their own.
    """
    definition: str = function["definition"].replace("force_generic_plan", "force_custom_plan")
    if function["body"] is not None:
        body = _as_statement(function["body"].strip())
        if function["reads_tables"]:
            result = function["result"].format(body)
            body = f"\n#variable_conflict use_column\nbegin {result}; end"
            definition = definition.replace("\n LANGUAGE sql\n", "\n LANGUAGE plpgsql\n")
        definition = definition.replace(function["body"], f"AS $body${body}$body$")
    head, separator, rest = definition.partition("\n RETURNS")
    for row_type in function["row_types"]:
        head = re.sub(rf"\b(public\.)?{row_type}(?=[,)])", "anyelement", head)
    return head + separator + rest


def _as_statement(body: str) -> str:
    if body.startswith("RETURN"):
        return f"select {body.removeprefix('RETURN')}"
    return body.removeprefix("BEGIN ATOMIC").removesuffix("END").strip().removesuffix(";")


async def _add_tenant_to_keys(
    owner: asyncpg.Connection, tables: Sequence[str]
) -> Sequence[asyncpg.Record]:
    """Add the tenant to primary keys and take subqueries out of policies, as Citus requires.

    Drops the foreign keys of the tables and returns them.
    """
    references: list[asyncpg.Record] = await owner.fetch(*_SQL["references"].bound(tables=tables))
    for reference in references:
        await _alter(owner, reference["name"], f"drop constraint {reference['reference']}")
    for key in await owner.fetch(*_SQL["keys"].bound(tables=tables)):
        duplicates = _SQL["duplicate_keys"].bound(table=key["name"], columns=key["columns"])
        for duplicate in await owner.fetch(*duplicates):
            await _alter(owner, key["name"], f"drop constraint {duplicate['name']}")
        columns = ", ".join(["tenant_id", *key["columns"]])
        new_key = f"add constraint {key['key']} primary key ({columns})"
        await _alter(owner, key["name"], f"drop constraint {key['key']}, {new_key}")
    own = "tenant_id = proven_tenant()"
    for policy in await owner.fetch(*_SQL["policies"].bound(tables=tables)):
        await owner.execute(
            f"alter policy {policy['policy']} on {policy['name']} using ({own}) with check ({own})"
        )
    return references


async def _alter(owner: asyncpg.Connection, table: str, change: str) -> None:
    await owner.execute(f"alter table {table} {change}")


async def _distribute_table(owner: asyncpg.Connection, table: str, tenant_column: str) -> None:
    query = "select create_distributed_table($1::text::regclass, $2, colocate_with => $3)"
    colocate_with = "default" if table == _FIRST else _FIRST
    await owner.fetchval(query, table, tenant_column, colocate_with)


async def _restore_references(
    owner: asyncpg.Connection, references: Sequence[asyncpg.Record]
) -> None:
    """Add foreign keys that hold the tenant again; triggers do what `on delete set null` did."""
    set_null: dict[str, list[str]] = {}
    for reference in references:
        if not reference["holds_tenant"]:
            continue
        if reference["null_column"]:
            pair = [reference["name"], reference["null_column"]]
            set_null.setdefault(reference["target"], []).extend(pair)
        definition = _SET_NULL.sub("", reference["definition"])
        new = f"add constraint {reference['reference']} {definition}"
        await _alter(owner, reference["name"], new)
    await owner.execute(_SQL["leave_references"].text)
    for target, pairs in set_null.items():
        # Triggers run in the order of their names: this one before the references are checked.
        arguments = ", ".join(f"'{word}'" for word in pairs)
        await owner.execute(
            f'create trigger "Leave_{target}" after delete on {target} '
            f"for each row execute function leave_references({arguments})"
        )


async def _create_functions_on_nodes(owner: asyncpg.Connection, tables: Sequence[str]) -> None:
    """Create every function on every node; those that take a tenant run on its node."""
    for function in await _functions(owner, tables):
        await owner.execute(function["definition"])
    for grants in ("function_grants", "view_grants"):
        for grant in await owner.fetch(_SQL[grants].text):
            await owner.execute(grant["statement"])
    for function in await owner.fetch(_SQL["tenant_functions"].text):
        await owner.fetchval(
            "select create_distributed_function($1::text::regprocedure, 'tenant', "
            "colocate_with => $2, force_delegation => true)",
            function["name"],
            _FIRST,
        )
