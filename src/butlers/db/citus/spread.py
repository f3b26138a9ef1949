"""Turning the tables of tenants into tables that are spread over nodes, tenant by tenant."""

import re
from collections.abc import Sequence

import asyncpg

from butlers.db.queries import load

_SQL = load(__file__)
_ANCHOR = "embedding_versions"
_EVENTS = "memory_events"
_VIEWS = ("indexed_memories", "indexed_vectors")
_SET_NULL = re.compile(r" ON DELETE SET NULL( \([^)]*\))?")


async def spread(owner: asyncpg.Connection) -> int:
    """Whatever is a tenant's lies on the node of that tenant; how many tables moved.

    All or nothing, and again without harm: what a migration added since is spread too.
    """
    async with owner.transaction():
        await owner.execute("set local citus.enable_unsafe_triggers = on")
        await owner.execute("set local citus.multi_shard_modify_mode = sequential")
        await owner.execute("set local check_function_bodies = off")
        tables = await owner.fetch(_SQL["tenant_tables"].text)
        names = [*(table["name"] for table in tables), *_VIEWS]
        await _loosen(owner, names)
        waiting = [table for table in tables if not table["is_spread"]]
        if waiting:
            references = await _prepare(owner, [t["name"] for t in waiting])
            for table in sorted(waiting, key=lambda one: one["name"] != _ANCHOR):
                await _distribute(owner, table["name"], table["tenant_column"])
            await _refer(owner, references)
            if _EVENTS in {table["name"] for table in waiting}:
                await owner.execute(_SQL["number"].text)
                await owner.execute(_SQL["numbered"].text)
        await owner.execute(_SQL["act_for"].text)
        await owner.execute(_SQL["settings"].text)
        await _teach(owner, names)
    return len(waiting)


async def _loosen(owner: asyncpg.Connection, tables: Sequence[str]) -> None:
    """Functions are no longer bound to the very tables they read, of which every node has parts."""
    functions = await _functions(owner, tables)
    for function in functions:
        await owner.execute(_loose(function))
    # Those that call others were made after them.
    for function in reversed(functions):
        if function["rows"]:
            await owner.execute(f"drop function {function['name']}")


async def _functions(owner: asyncpg.Connection, tables: Sequence[str]) -> list[asyncpg.Record]:
    """Every function of ours, all it names told with its schema: each has its own way to look."""
    await owner.execute("set local search_path = pg_catalog")
    found = _SQL["functions"].bound(tables=tables)
    functions: list[asyncpg.Record] = await owner.fetch(*found)
    await owner.execute("set local search_path = public")
    return functions


def _loose(function: asyncpg.Record) -> str:
    """How a function is defined that knows tables by their names alone.

    One that reads them becomes a procedure, because only those are planned with the values they
    are given, and for each of them anew. Rows it takes may be of any part of a table.
    """
    defined: str = function["defined"].replace("force_generic_plan", "force_custom_plan")
    if function["body"] is not None:
        said = _stated(function["body"].strip())
        if function["reads"]:
            answer = function["answer"].format(said)
            said = f"\n#variable_conflict use_column\nbegin {answer}; end"
            defined = defined.replace("\n LANGUAGE sql\n", "\n LANGUAGE plpgsql\n")
        defined = defined.replace(function["body"], f"AS $body${said}$body$")
    head, separator, rest = defined.partition("\n RETURNS")
    for row_type in function["rows"]:
        head = re.sub(rf"\b(public\.)?{row_type}(?=[,)])", "anyelement", head)
    return head + separator + rest


def _stated(body: str) -> str:
    """What a function does, as a statement."""
    if body.startswith("RETURN"):
        return f"select {body.removeprefix('RETURN')}"
    return body.removeprefix("BEGIN ATOMIC").removesuffix("END").strip().removesuffix(";")


async def _prepare(owner: asyncpg.Connection, tables: Sequence[str]) -> Sequence[asyncpg.Record]:
    """Keys hold the tenant and policies ask no table; what referred to what until now."""
    found = _SQL["references"].bound(tables=tables)
    references: list[asyncpg.Record] = await owner.fetch(*found)
    for one in references:
        await owner.execute(f"alter table {one['name']} drop constraint {one['reference']}")
    for one in await owner.fetch(*_SQL["keys"].bound(tables=tables)):
        twins = _SQL["twins"].bound(table=one["name"], columns=one["columns"])
        for twin in await owner.fetch(*twins):
            await owner.execute(f"alter table {one['name']} drop constraint {twin['name']}")
        columns = ", ".join(["tenant_id", *one["columns"]])
        await owner.execute(
            f"alter table {one['name']} drop constraint {one['key']}, "
            f"add constraint {one['key']} primary key ({columns})"
        )
    own = "tenant_id = proven_tenant()"
    for policy in await owner.fetch(*_SQL["policies"].bound(tables=tables)):
        await owner.execute(
            f"alter policy {policy['policy']} on {policy['name']} using ({own}) with check ({own})"
        )
    return references


async def _distribute(owner: asyncpg.Connection, table: str, tenant_column: str) -> None:
    beside = "default" if table == _ANCHOR else _ANCHOR
    await owner.fetchval(
        "select create_distributed_table($1::text::regclass, $2, colocate_with => $3)",
        table,
        tenant_column,
        beside,
    )


async def _refer(owner: asyncpg.Connection, references: Sequence[asyncpg.Record]) -> None:
    """What refers to another does so again, by tenant and key; triggers empty what is left over."""
    left: dict[str, list[str]] = {}
    for one in references:
        if not one["holds_tenant"]:
            continue
        if one["emptied"]:
            left.setdefault(one["target"], []).extend([one["name"], one["emptied"]])
        defined = _SET_NULL.sub("", one["defined"])
        await owner.execute(
            f"alter table {one['name']} add constraint {one['reference']} {defined}"
        )
    await owner.execute(_SQL["leave"].text)
    for target, pairs in left.items():
        # Triggers act in the order of their names: this one before the references are checked.
        arguments = ", ".join(f"'{word}'" for word in pairs)
        await owner.execute(
            f'create trigger "Leave_{target}" after delete on {target} '
            f"for each row execute function leave_references({arguments})"
        )


async def _teach(owner: asyncpg.Connection, tables: Sequence[str]) -> None:
    """Every node knows every function; what acts for a tenant runs where its rows are."""
    for function in await _functions(owner, tables):
        await owner.execute(function["defined"])
    for right in [*await owner.fetch(_SQL["rights"].text), *await owner.fetch(_SQL["views"].text)]:
        await owner.execute(right["told"])
    for function in await owner.fetch(_SQL["delegable"].text):
        await owner.fetchval(
            "select create_distributed_function($1::text::regprocedure, 'tenant', "
            "colocate_with => $2, force_delegation => true)",
            function["name"],
            _ANCHOR,
        )
