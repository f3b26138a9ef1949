"""Noting what changes in a database while its rows are carried elsewhere, and carrying that too.

A change is noted by the key of its row alone: what is carried is the row as it then is, so that
carrying the same change twice does no harm.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice

import asyncpg

from butlers.db.citus.table_copies import TableCopy, name, read, write
from butlers.db.queries import load
from butlers.errors import Conflict, Unavailable

_SQL = load(__file__)
# As long as one who waits for a table keeps everybody else waiting behind it.
_LOCK_WAIT = "set local lock_timeout = '1s'"
_TRIES, _PAUSE_SECONDS = 60, 0.5
# So many changes are carried at once, and so many rows in one piece.
_AT_ONCE, _PIECE = 5_000, 1_000

# A row made room for another: that change is noted, and carried first when both are tried again.
CROWDED = (asyncpg.UniqueViolationError, asyncpg.ExclusionViolationError)


async def follow(source: asyncpg.Connection, tables: Sequence[TableCopy], *, spread: bool) -> None:
    """From here on whatever changes for a tenant is noted; again without harm."""
    await source.execute(_SQL["book"].text)
    if spread and not await source.fetchval(_IS_SPREAD):
        await source.fetchval(_SPREAD_BOOK)
    known = {row["name"] for row in await source.fetch(_SQL["followed"].text)}
    for table in tables:
        if table.name not in known:
            await patiently(partial(_note_changes, source, table))


_IS_SPREAD = """
    select exists (
      select from pg_dist_partition where logicalrelid = 'moving.changes'::regclass
    )
"""
_SPREAD_BOOK = """
    select create_distributed_table(
      'moving.changes', 'tenant_id', colocate_with => 'embedding_versions'
    )
"""


async def _note_changes(source: asyncpg.Connection, table: TableCopy) -> None:
    async with source.transaction():
        await source.execute(_LOCK_WAIT)
        if await source.fetchval("select to_regclass('pg_dist_partition') is not null"):
            await source.execute("set local citus.enable_unsafe_triggers = on")
            await source.execute("set local citus.multi_shard_modify_mode = sequential")
        noting = _SQL["noting"].bound(
            table=table.name,
            tenant_column=table.tenant_column,
            old_key=table.row_key("old"),
            new_key=table.row_key("new"),
        )
        await source.execute(await source.fetchval(*noting))
        await source.execute(
            f"create trigger moving_note after insert or update or delete on {name(table.name)} "
            f"for each row execute function moving.{name(table.name)}()"
        )


async def unfollow(source: asyncpg.Connection) -> None:
    """Nothing is noted any more."""
    for row in await source.fetch(_SQL["followed"].text):
        await patiently(partial(_forget, source, row["name"]))
    await source.execute("drop schema if exists moving cascade")


async def _forget(source: asyncpg.Connection, table: str) -> None:
    async with source.transaction():
        await source.execute(_LOCK_WAIT)
        await source.execute(f"drop trigger if exists moving_note on {table}")


async def patiently(step: Callable[[], Awaitable[None]]) -> None:
    """A step that waits for a lock is tried for a second at a time, and others go on between."""
    for _ in range(_TRIES):
        try:
            return await step()
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(_PAUSE_SECONDS)
    raise Conflict("somebody holds the tables of the database; try again when they let go")


async def catch_up(
    source: asyncpg.Connection, target: asyncpg.Connection, tables: Sequence[TableCopy]
) -> int:
    """Whatever was noted until now is carried; how many changes that were."""
    waiting = await source.fetch(_SQL["waiting"].text)
    by_name = {table.name: table for table in tables}
    carried = 0
    for tenants in _groups(waiting):
        carried += await _carry(source, target, by_name, tenants)
    return carried


def _groups(waiting: Sequence[asyncpg.Record]) -> list[list[str]]:
    """Tenants together as long as they have few changes; what is one tenant's is never parted."""
    groups: list[list[str]] = []
    room = 0
    for row in waiting:
        if not groups or row["changes"] > room:
            groups.append([])
            room = _AT_ONCE
        groups[-1].append(row["tenant_id"])
        room -= row["changes"]
    return groups


async def _carry(
    source: asyncpg.Connection,
    target: asyncpg.Connection,
    tables: dict[str, TableCopy],
    tenants: Sequence[str],
) -> int:
    for _ in range(_TRIES):
        changes = await source.fetch(*_SQL["changes"].bound(tenants=tenants))
        keys: dict[str, set[str]] = {}
        for change in changes:
            keys.setdefault(change["table_name"], set()).add(change["key"])
        try:
            await _replace(source, target, tenants, [(tables[one], keys[one]) for one in keys])
        except CROWDED:
            continue
        ids = [change["id"] for change in changes]
        await source.fetch(*_SQL["carried"].bound(tenants=tenants, ids=ids))
        return len(changes)
    raise Unavailable("what changes cannot be carried: rows clash however often it is tried")


async def _replace(
    source: asyncpg.Connection,
    target: asyncpg.Connection,
    tenants: Sequence[str],
    changed: Sequence[tuple[TableCopy, set[str]]],
) -> None:
    """Rows are as they are at the source, or gone as they are there."""
    async with carrying(target):
        for table, keys in changed:
            for piece in _pieces(keys):
                await target.execute(table.dropping, piece, tenants)
        for table, keys in changed:
            for piece in _pieces(keys):
                await write(target, table, await read(source, table.taking, piece, tenants))


def _pieces(keys: set[str]) -> list[str]:
    """Keys as lists of a size that a statement takes well."""
    rest = iter(sorted(keys))
    pieces = []
    while piece := list(islice(rest, _PIECE)):
        pieces.append(json.dumps([json.loads(key) for key in piece]))
    return pieces


@asynccontextmanager
async def carrying(target: asyncpg.Connection) -> AsyncIterator[None]:
    """A transaction that takes rows as they are: nothing is derived, checked or refused."""
    async with target.transaction():
        await target.execute("set local session_replication_role = replica")
        yield
