"""Let a new database take the name of the old one, on every node of a cluster.

On each node the names change in one transaction; the coordinator, which clients ask, comes last.
A comment on the new database says that it is complete: a run that finds it there switches over.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from butlers.db.primary_connector import connected
from butlers.db.queries import load
from butlers.errors import Unavailable
from butlers_cluster.nodes import ClusterNode
from butlers_cluster.tables import quote_name

_SQL = load(__file__)
_COMPLETE = "whole; "
_TRIES, _PAUSE_SECONDS = 100, 0.1


@dataclass(frozen=True, slots=True)
class DatabaseNames:
    """The names of a butler's database, of the one that shall replace it, and of the replaced."""

    current: str

    @property
    def next(self) -> str:
        """Return the name of the new database until the switchover."""
        return f"{self.current}_next"

    @property
    def before(self) -> str:
        """Return the name of the old database after the switchover."""
        return f"{self.current}_before"


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """Which of the three databases exist on a node, and the comment on the new one."""

    current: bool = False
    next: bool = False
    before: bool = False
    comment: str = ""

    @property
    def is_complete(self) -> bool:
        """Return whether the new database has all that the old one had."""
        return self.comment.startswith(_COMPLETE)


async def read_state(server: asyncpg.Connection, names: DatabaseNames) -> DatabaseState:
    """Read which databases a node has."""
    wanted = [names.current, names.next, names.before]
    rows = await server.fetch(*_SQL["databases"].bound(names=wanted))
    comments = {row["name"]: row["comment"] for row in rows}
    return DatabaseState(
        current=names.current in comments,
        next=names.next in comments,
        before=names.before in comments,
        comment=comments.get(names.next, ""),
    )


async def mark_complete(server: asyncpg.Connection, names: DatabaseNames) -> None:
    """Note that the new database is complete; from here on a run can only switch over."""
    comment = (await read_state(server, names)).comment
    await server.execute(f"comment on database {quote_name(names.next)} is '{_COMPLETE}{comment}'")


async def close_database(server: asyncpg.Connection, database: str, keep_pid: int) -> None:
    """Refuse new connections to a database and end all but one."""
    await allow_connections(server, database, False)
    times_empty = 0
    for _ in range(_TRIES):
        ended = await server.fetch(*_SQL["end_connections"].bound(database=database, pid=keep_pid))
        # Look once more: a client that was connecting just then appears a moment later.
        times_empty = 0 if ended else times_empty + 1
        if times_empty > 1:
            return
        await asyncio.sleep(_PAUSE_SECONDS)
    raise Unavailable(f"clients of {database} cannot be disconnected")


async def allow_connections(server: asyncpg.Connection, database: str, allowed: bool) -> None:
    """Set whether a database accepts connections."""
    value = "true" if allowed else "false"
    await server.execute(f"alter database {quote_name(database)} allow_connections {value}")


async def switch_over(
    server: asyncpg.Connection,
    nodes: Sequence[ClusterNode],
    url: str,
    names: DatabaseNames,
    *,
    distributed: bool,
) -> None:
    """Rename the databases on every node that has them."""
    for node in nodes:
        async with connected(node.dsn(url)) as connection:
            await _switch_over_at(connection, names, is_expected=distributed)
    await _switch_over_at(server, names, is_expected=True)


async def _switch_over_at(
    server: asyncpg.Connection, names: DatabaseNames, *, is_expected: bool
) -> None:
    """Rename on one node. Where the new database is expected and missing, that is done already."""
    state = await read_state(server, names)
    if is_expected and not state.next:
        return None
    renames = []
    if state.current and not state.before:
        renames.append((names.current, names.before, False))
    if state.next:
        renames.append((names.next, names.current, True))
    comment = state.comment.removeprefix(_COMPLETE)
    for _ in range(_TRIES):
        for database, _, _ in renames:
            await allow_connections(server, database, False)
            await server.fetch(*_SQL["end_connections"].bound(database=database, pid=None))
        try:
            return await _rename(server, renames, names.current, comment)
        except asyncpg.ObjectInUseError:
            await asyncio.sleep(_PAUSE_SECONDS)
    raise Unavailable(f"{names.current} cannot be renamed: its clients cannot be disconnected")


async def _rename(
    server: asyncpg.Connection, renames: Sequence[tuple[str, str, bool]], current: str, comment: str
) -> None:
    async with server.transaction():
        for old, new, accepts_clients in renames:
            await server.execute(f"alter database {quote_name(old)} rename to {quote_name(new)}")
            await allow_connections(server, new, accepts_clients)
        if any(new == current for _, new, _ in renames):
            await server.execute(f"comment on database {quote_name(current)} is '{comment}'")


async def drop_database(
    server: asyncpg.Connection, nodes: Sequence[ClusterNode], url: str, database: str
) -> None:
    """Drop a database on every node, on the coordinator last."""
    statement = f"drop database if exists {quote_name(database)} with (force)"
    for node in nodes:
        async with connected(node.dsn(url)) as connection:
            await connection.execute(statement)
    await server.execute(statement)
