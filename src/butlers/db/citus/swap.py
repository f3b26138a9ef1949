"""Databases that take each other's place, on every node of a cluster.

On each node the names change in one transaction; the coordinator, whom clients ask, comes last.
That the new one is whole is said of the database itself, so that whoever is stopped in between is
known to have got so far by whoever comes next.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from butlers.db import address
from butlers.db.citus.nodes import ClusterNode
from butlers.db.citus.table_copies import name
from butlers.db.provision import connected
from butlers.db.queries import load
from butlers.errors import Unavailable

_SQL = load(__file__)
_WHOLE = "whole; "
_TRIES, _PAUSE_SECONDS = 100, 0.1


@dataclass(frozen=True, slots=True)
class Names:
    """A butler's database, the one that shall take its place, and the one that had it."""

    now: str

    @property
    def next(self) -> str:
        """What the new one is called until it takes the place."""
        return f"{self.now}_next"

    @property
    def before(self) -> str:
        """What the old one is called from then on."""
        return f"{self.now}_before"


@dataclass(frozen=True, slots=True)
class DatabaseNames:
    """Which of the three there are at a node."""

    now: bool = False
    next: bool = False
    before: bool = False
    is_open: bool = True
    said: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the new one has all that the old one had."""
        return self.said.startswith(_WHOLE)


async def database_names(server: asyncpg.Connection, of: Names) -> DatabaseNames:
    """What a node has."""
    rows = await server.fetch(*_SQL["known"].bound(names=[of.now, of.next, of.before]))
    found = {row["name"]: row for row in rows}
    return DatabaseNames(
        now=of.now in found,
        next=of.next in found,
        before=of.before in found,
        is_open=of.now not in found or found[of.now]["is_open"],
        said=found[of.next]["said"] if of.next in found else "",
    )


async def say_whole(server: asyncpg.Connection, of: Names) -> None:
    """From here on the new one is what counts."""
    said = (await database_names(server, of)).said
    await server.execute(f"comment on database {name(of.next)} is '{_WHOLE}{said}'")


async def close(server: asyncpg.Connection, database: str, but: int) -> None:
    """Nobody is in a database but one, and nobody comes in."""
    await let_in(server, database, False)
    seen_empty = 0
    for _ in range(_TRIES):
        ended = await server.fetch(*_SQL["end_others"].bound(database=database, but=but))
        # Once more: who was coming in just then is seen a moment later.
        seen_empty = 0 if ended else seen_empty + 1
        if seen_empty > 1:
            return
        await asyncio.sleep(_PAUSE_SECONDS)
    raise Unavailable(f"there are clients in {database} who cannot be sent away")


async def let_in(server: asyncpg.Connection, database: str, anybody: bool) -> None:
    """Whether a database takes clients."""
    said = "true" if anybody else "false"
    await server.execute(f"alter database {name(database)} allow_connections {said}")


async def swap(
    server: asyncpg.Connection, nodes: Sequence[ClusterNode], url: str, of: Names, *, spreads: bool
) -> None:
    """The new one has taken the place of the old one, wherever either is."""
    for node in nodes:
        async with connected(node.dsn(url, address.database_of(url))) as there:
            await _swap_at(there, of, is_there=spreads)
    await _swap_at(server, of, is_there=True)


async def _swap_at(server: asyncpg.Connection, of: Names, *, is_there: bool) -> None:
    """One node follows. Where the new one is to be there and is not, it has followed already."""
    found = await database_names(server, of)
    if is_there and not found.next:
        return None
    steps = []
    if found.now and not found.before:
        steps.append((of.now, of.before, False))
    if found.next:
        steps.append((of.next, of.now, True))
    said = found.said.removeprefix(_WHOLE)
    for _ in range(_TRIES):
        for database, _, _ in steps:
            await let_in(server, database, False)
            await server.fetch(*_SQL["end_all"].bound(database=database))
        try:
            return await _rename(server, steps, of.now, said)
        except asyncpg.ObjectInUseError:
            await asyncio.sleep(_PAUSE_SECONDS)
    raise Unavailable(f"{of.now} cannot be renamed: there are clients who cannot be sent away")


async def _rename(
    server: asyncpg.Connection, steps: Sequence[tuple[str, str, bool]], now: str, said: str
) -> None:
    async with server.transaction():
        for old, new, is_open in steps:
            await server.execute(f"alter database {name(old)} rename to {name(new)}")
            await let_in(server, new, is_open)
        if any(new == now for _, new, _ in steps):
            await server.execute(f"comment on database {name(now)} is '{said}'")


async def drop(
    server: asyncpg.Connection, nodes: Sequence[ClusterNode], url: str, database: str
) -> None:
    """A database is nowhere any more; at the one that is asked first it goes last."""
    for node in nodes:
        async with connected(node.dsn(url, address.database_of(url))) as there:
            await _drop_at(there, database)
    await _drop_at(server, database)


async def _drop_at(server: asyncpg.Connection, database: str) -> None:
    await server.execute(f"drop database if exists {name(database)} with (force)")
