"""A butler's database becomes a spread one or a plain one again, while it is used.

A new database is made beside the old one, filled with all that is there and all that changes
meanwhile, and takes its place when nothing is missing. Until then the old one is what counts; a
run that was stopped at any moment is finished by the next one.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic

import asyncpg

from butlers.db.citus import counting, swap
from butlers.db.citus.copying import Copying, CopyProgress, Tell
from butlers.db.citus.following import carrying, follow, patiently, unfollow
from butlers.db.citus.nodes import ClusterNode, nodes_of, welcome
from butlers.db.citus.settle import settle
from butlers.db.citus.swap import Names
from butlers.db.citus.table_copies import (
    TableCopy,
    count,
    is_spread,
    name,
    read,
    revisions_of,
    tables_of,
    write,
)
from butlers.db.faults import translated_errors
from butlers.db.login import close_to_strangers, login_of
from butlers.db.provision import connected, external_access, provision
from butlers.db.queries import load
from butlers.errors import Conflict, IntegrityViolation, NotFound, Unavailable

_SQL = load(__file__)
_ROUNDS, _A_MOMENT_SECONDS = 100, 2.0
_LOCK_WAIT = "set local lock_timeout = '2s'"


@dataclass(frozen=True, slots=True)
class ButlerDatabase:
    """Where a butler's database is, and what brings a fresh one to the same revision."""

    url: str
    database: str
    migrate: Callable[[str], Awaitable[None]]

    def dsn(self, database: str) -> str:
        """How its owner reaches a database."""
        return external_access(self.url, database).owner_dsn


async def move(place: ButlerDatabase, tell: Tell, *, spreads: bool) -> bool:
    """The database is spread over the nodes of its cluster, or plain; whether it was not before."""
    async with _alone(place) as server:
        nodes = await _fit(server)
        names = Names(place.database)
        found = await swap.database_names(server, names)
        if not found.is_whole:
            if not found.next and await _is_done(place, spreads=spreads):
                return False
            if found.before:
                raise Conflict(_BEFORE.format(before=names.before))
            await _Filling(place, server, nodes, names, tell, spreads).run()
        tell(CopyProgress("take its place"))
        await swap.swap(server, nodes, place.url, names, spreads=spreads)
    async with connected(place.dsn(place.database)) as owner:
        await owner.execute("drop schema if exists moving cascade")
    return True


async def abandon(place: ButlerDatabase) -> None:
    """What was begun is undone; the database was in use all the time, and stays as it is."""
    async with _alone(place) as server:
        names = Names(place.database)
        found = await swap.database_names(server, names)
        if found.is_whole:
            raise Conflict("the new database is whole already; run the command again to finish")
        await swap.let_in(server, names.now, True)
        await swap.drop(server, await nodes_of(server), place.url, names.next)
        async with connected(place.dsn(names.now)) as owner:
            await unfollow(owner)


async def drop_before(place: ButlerDatabase) -> None:
    """The database whose place was taken is dropped."""
    async with _alone(place) as server:
        names = Names(place.database)
        found = await swap.database_names(server, names)
        if not found.before:
            raise NotFound(f"there is no database {names.before}")
        await swap.drop(server, await nodes_of(server), place.url, names.before)


_BEFORE = (
    "there is {before} from an earlier move; look whether all is well, then drop it "
    "with --drop-before"
)
_NO_CLUSTER = (
    "database.url: the server is no coordinator of a Citus cluster with nodes; on it, in the "
    "database of that url, run: CREATE EXTENSION citus; SELECT citus_set_coordinator_host(...); "
    "SELECT citus_add_node(...) for each node"
)


@asynccontextmanager
async def _alone(place: ButlerDatabase) -> AsyncIterator[asyncpg.Connection]:
    """The server, as somebody who may do everything there, and nobody else at the same time."""
    with translated_errors():
        async with connected(place.url) as server:
            if not await server.fetchval(_SQL["may"].text):
                raise Unavailable("database.url: the login has to be a superuser for this")
            if not await server.fetchval(_SQL["alone"].positional, place.database):
                raise Conflict(f"{place.database} is being moved by another process just now")
            yield server


async def _fit(server: asyncpg.Connection) -> list[ClusterNode]:
    nodes = await nodes_of(server)
    if not nodes:
        raise Unavailable(_NO_CLUSTER)
    return nodes


async def _is_done(place: ButlerDatabase, *, spreads: bool) -> bool:
    async with connected(place.dsn(place.database)) as owner:
        return await is_spread(owner) is spreads


@dataclass(frozen=True, slots=True)
class _Filling:
    """A new database that comes to have all that the old one has."""

    place: ButlerDatabase
    server: asyncpg.Connection
    nodes: Sequence[ClusterNode]
    names: Names
    tell: Tell
    spreads: bool

    async def run(self) -> None:
        """The new database is whole, and nobody is in the old one."""
        await swap.let_in(self.server, self.names.now, True)
        async with connected(self.place.dsn(self.names.now)) as source:
            if not await self._is_begun():
                await self._make(source)
            async with connected(self.place.dsn(self.names.next)) as target:
                await self._fill(source, target)

    async def _is_begun(self) -> bool:
        found = await swap.database_names(self.server, self.names)
        if not found.next:
            return False
        async with connected(self.place.dsn(self.names.next)) as target:
            return bool(await target.fetchval(_SQL["is_begun"].text))

    async def _make(self, source: asyncpg.Connection) -> None:
        """The new database is there on every node that shall have it, and empty."""
        self.tell(CopyProgress("make"))
        new = self.names.next
        dsn = self.place.dsn(new)
        await swap.drop(self.server, self.nodes, self.place.url, new)
        await provision(self.place.url, new, sign_in=False)
        await self.place.migrate(dsn)
        async with connected(dsn) as target:
            await _same_revision(source, target)
            await self._take_keys(source, target)
            if self.spreads:
                await settle(self.place.url, dsn, new)
                await welcome(target, self.names.now)
            await Copying(source, target, [], self.tell).prepare()

    async def _take_keys(self, source: asyncpg.Connection, target: asyncpg.Connection) -> None:
        """Whoever signs in at the old database signs in at the new one in the same way."""
        keys = await source.fetchrow(_SQL["keys"].text)
        await target.execute("delete from public.tenant_key")
        await target.execute(*_SQL["take_keys"].bound(**keys))
        login = login_of(self.names.now)
        if await self.server.fetchval("select 1 from pg_roles where rolname = $1", login):
            await self.server.execute(
                f"grant connect on database {name(self.names.next)} to {name(login)}"
            )
            await close_to_strangers(self.server, self.names.next)

    async def _fill(self, source: asyncpg.Connection, target: asyncpg.Connection) -> None:
        await _same_revision(source, target)
        tables = await tables_of(source)
        _same_tables(tables, await tables_of(target))
        followed = [table for table in tables if table.tenant_column]
        copying = Copying(source, target, followed, self.tell)
        await follow(source, followed, spread=not self.spreads)
        await copying.copy()
        in_doubt = await _until_alike(copying)
        try:
            await self._finish(copying, tables, in_doubt)
        except BaseException:
            await swap.let_in(self.server, self.names.now, True)
            raise

    async def _finish(
        self, copying: Copying, tables: Sequence[TableCopy], in_doubt: Sequence[TableCopy]
    ) -> None:
        """Whoever acts for a tenant finishes, all are sent away, and the rest is copied."""
        source, target = copying.source, copying.target
        self.tell(CopyProgress("close the old one"))
        await patiently(partial(self._close, source))
        if not self.spreads:
            await source.fetchval("select recover_prepared_transactions()")
        await _same_revision(source, target)
        while await copying.catch_up():
            pass
        rest = [table for table in tables if not table.tenant_column]
        for table in rest:
            await _copy_whole(source, target, table)
        await _compare(source, target, [*rest, *in_doubt])
        await counting.go_on(target, self.place.dsn(self.names.next), spreads=self.spreads)
        await swap.say_whole(self.server, self.names)

    async def _close(self, source: asyncpg.Connection) -> None:
        async with source.transaction():
            await source.execute(_LOCK_WAIT)
            await source.execute(_SQL["gate"].text)
            await swap.close(self.server, self.names.now, source.get_server_pid())


async def _same_revision(source: asyncpg.Connection, target: asyncpg.Connection) -> None:
    old, new = await revisions_of(source), await revisions_of(target)
    if old != new:
        raise Unavailable(
            f"the database stands at {', '.join(old)} and this version at {', '.join(new)}; "
            "bring both to the same with `butlers up`, then run this with --abandon and again"
        )


def _same_tables(old: Sequence[TableCopy], new: Sequence[TableCopy]) -> None:
    if [(t.name, t.columns) for t in old] != [(t.name, t.columns) for t in new]:
        raise Unavailable("the database has tables or columns that this version does not make")


async def _until_alike(copying: Copying) -> list[TableCopy]:
    """Caught up, and every table counted on both sides; those that change too quickly to tell."""
    in_doubt = list(copying.tables)
    for _ in range(_ROUNDS):
        began = monotonic()
        await copying.catch_up()
        if monotonic() - began < _A_MOMENT_SECONDS:
            in_doubt = [
                table
                for table in in_doubt
                if await count(copying.source, table) != await count(copying.target, table)
            ]
        if len(in_doubt) < len(copying.tables):
            break
    await copying.catch_up()
    return in_doubt


async def _copy_whole(
    source: asyncpg.Connection, target: asyncpg.Connection, table: TableCopy
) -> None:
    """A table that is no tenant's and never large."""
    rows = await read(source, table.reading)
    async with carrying(target):
        await target.execute(table.emptying)
        await write(target, table, rows)


async def _compare(
    source: asyncpg.Connection, target: asyncpg.Connection, tables: Sequence[TableCopy]
) -> None:
    """Nothing is missing: tables have as many rows, and the chains of events the same ends."""
    for table in tables:
        old, new = await count(source, table), await count(target, table)
        if old != new:
            raise IntegrityViolation(f"{table.name} has {old} rows, and {new} were copied")
    heads = _SQL["heads"].text
    if await source.fetch(heads) != await target.fetch(heads):
        raise IntegrityViolation("the events that were copied end at another place")
