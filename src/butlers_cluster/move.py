"""Move a butler's database to the nodes of its cluster, or back to one server, while it is used.

A new database is created beside the old one, filled with its rows and with the changes made
meanwhile, and takes its name when nothing is missing. Until then the old one serves. A run that
was stopped at any moment is finished by the next one.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic

import asyncpg

from butlers.db.driver_errors import translated_errors
from butlers.db.login import close_to_strangers, login_of
from butlers.db.primary_connector import connected
from butlers.db.provision import external_access, provision
from butlers.db.queries import load
from butlers.db.tenant_proof import read_keys
from butlers.errors import Conflict, IntegrityViolation, NotFound, Unavailable
from butlers_cluster import switchover
from butlers_cluster.distribution import ensure_distributed, is_distributed
from butlers_cluster.nodes import ClusterNode, allow_login, list_nodes
from butlers_cluster.replication import (
    CopyProgress,
    Replication,
    Report,
    capture_changes,
    prepare_copy,
    replica_transaction,
    retry_on_lock,
    stop_capture,
)
from butlers_cluster.switchover import DatabaseNames
from butlers_cluster.tables import (
    TableCopy,
    advance_sequences,
    count_rows,
    list_revisions,
    list_tables,
    quote_name,
    read_rows,
    write_rows,
)

_SQL = load(__file__)
_ROUNDS, _QUICK_SECONDS = 100, 2.0
_LOCK_TIMEOUT = "set local lock_timeout = '2s'"
_BEFORE = (
    "there is {before} from an earlier move; look whether all is well, then drop it "
    "with --drop-before"
)
_NO_CLUSTER = (
    "database.url: the server is no coordinator of a Citus cluster with nodes; on it, in the "
    "database of that url, run: CREATE EXTENSION citus; SELECT citus_set_coordinator_host(...); "
    "SELECT citus_add_node(...) for each node"
)


@dataclass(frozen=True, slots=True)
class ButlerDatabase:
    """A butler's database: the server, its name, and how to migrate a new one to its revision."""

    name: str
    url: str
    database: str
    migrate: Callable[[str], Awaitable[None]]

    def dsn(self, database: str) -> str:
        """Return the address of a database of the server, for its owner."""
        return external_access(self.url, database).owner_dsn


async def move(butler: ButlerDatabase, report: Report, *, distributed: bool) -> bool:
    """Make the database distributed or plain; return False where it was so already."""
    async with _exclusive(butler) as server:
        nodes = await list_nodes(server)
        if not nodes:
            raise Unavailable(_NO_CLUSTER)
        names = DatabaseNames(butler.database)
        state = await switchover.read_state(server, names)
        if not state.is_complete:
            if not state.next and await _is_done(butler, distributed=distributed):
                return False
            if state.before:
                raise Conflict(_BEFORE.format(before=names.before))
            await _Filling(butler, server, nodes, names, report, distributed).run()
        report(CopyProgress("switch over"))
        await switchover.switch_over(server, nodes, butler.url, names, distributed=distributed)
    async with connected(butler.dsn(butler.database)) as owner:
        await owner.execute("drop schema if exists moving cascade")
    return True


async def abandon(butler: ButlerDatabase) -> None:
    """Undo what a stopped run began; Conflict where the new database is complete already."""
    async with _exclusive(butler) as server:
        names = DatabaseNames(butler.database)
        if (await switchover.read_state(server, names)).is_complete:
            raise Conflict("the new database is complete already; run the command again to finish")
        await switchover.allow_connections(server, names.current, True)
        await switchover.drop_database(server, await list_nodes(server), butler.url, names.next)
        async with connected(butler.dsn(names.current)) as owner:
            await stop_capture(owner)


async def drop_before(butler: ButlerDatabase) -> None:
    """Drop the database that an earlier move replaced."""
    async with _exclusive(butler) as server:
        names = DatabaseNames(butler.database)
        if not (await switchover.read_state(server, names)).before:
            raise NotFound(f"there is no database {names.before}")
        await switchover.drop_database(server, await list_nodes(server), butler.url, names.before)


@asynccontextmanager
async def _exclusive(butler: ButlerDatabase) -> AsyncIterator[asyncpg.Connection]:
    """Connect to the server as a superuser; refuse a second run at the same time."""
    with translated_errors():
        async with connected(butler.url) as server:
            if not await server.fetchval(_SQL["is_superuser"].text):
                raise Unavailable("database.url: the login has to be a superuser for this")
            if not await server.fetchval(_SQL["lock_move"].positional, butler.database):
                raise Conflict(f"another process is moving {butler.database} now")
            yield server


async def _is_done(butler: ButlerDatabase, *, distributed: bool) -> bool:
    async with connected(butler.dsn(butler.database)) as owner:
        return await is_distributed(owner) is distributed


@dataclass(frozen=True, slots=True)
class _Filling:
    """Create the new database and bring all that the old one has to it."""

    butler: ButlerDatabase
    server: asyncpg.Connection
    nodes: Sequence[ClusterNode]
    names: DatabaseNames
    report: Report
    distributed: bool

    async def run(self) -> None:
        """Complete the new database; the old one then has no clients and takes none."""
        await switchover.allow_connections(self.server, self.names.current, True)
        async with connected(self.butler.dsn(self.names.current)) as source:
            if not await self._is_begun():
                await self._create(source)
            async with connected(self.butler.dsn(self.names.next)) as target:
                await self._fill(source, target)

    async def _is_begun(self) -> bool:
        if not (await switchover.read_state(self.server, self.names)).next:
            return False
        async with connected(self.butler.dsn(self.names.next)) as target:
            return bool(await target.fetchval(_SQL["is_begun"].text))

    async def _create(self, source: asyncpg.Connection) -> None:
        self.report(CopyProgress("create"))
        new = self.names.next
        dsn = self.butler.dsn(new)
        await switchover.drop_database(self.server, self.nodes, self.butler.url, new)
        await provision(self.butler.url, new, sign_in=False)
        await self.butler.migrate(dsn)
        async with connected(dsn) as target:
            await _require_same_revision(source, target)
            await self._copy_keys(source, target)
            if self.distributed:
                await ensure_distributed(self.butler.url, dsn, new)
                await allow_login(target, self.names.current)
            await prepare_copy(target)

    async def _copy_keys(self, source: asyncpg.Connection, target: asyncpg.Connection) -> None:
        """Copy the keys and the login, so that clients sign in at the new database as before."""
        keys = await read_keys(source)
        await target.execute("delete from public.tenant_key")
        await target.execute(*_SQL["insert_keys"].bound(**asdict(keys)))
        login = login_of(self.names.current)
        if await self.server.fetchval("select 1 from pg_roles where rolname = $1", login):
            await self.server.execute(
                f"grant connect on database {quote_name(self.names.next)} to {quote_name(login)}"
            )
            await close_to_strangers(self.server, self.names.next)

    async def _fill(self, source: asyncpg.Connection, target: asyncpg.Connection) -> None:
        await _require_same_revision(source, target)
        tables = await list_tables(source)
        _require_same_tables(tables, await list_tables(target))
        of_tenants = [table for table in tables if table.tenant_column]
        replication = Replication(source, target, of_tenants, self.report)
        await capture_changes(source, of_tenants, distributed=not self.distributed)
        await replication.copy()
        unequal = await _catch_up(replication)
        try:
            await self._finish(replication, tables, unequal)
        except BaseException:
            await switchover.allow_connections(self.server, self.names.current, True)
            raise

    async def _finish(
        self, replication: Replication, tables: Sequence[TableCopy], unequal: Sequence[TableCopy]
    ) -> None:
        """Close the old database, copy the rest, compare, and mark the new one complete."""
        source, target = replication.source, replication.target
        self.report(CopyProgress("close the old database"))
        await retry_on_lock(partial(self._close, source))
        if not self.distributed:
            await source.fetchval("select recover_prepared_transactions()")
        await _require_same_revision(source, target)
        while await replication.catch_up():
            pass
        small = [table for table in tables if not table.tenant_column]
        for table in small:
            await _copy_small(source, target, table)
        await _compare(source, target, [*small, *unequal])
        dsn = self.butler.dsn(self.names.next)
        await advance_sequences(target, dsn, distributed=self.distributed)
        await switchover.mark_complete(self.server, self.names)

    async def _close(self, source: asyncpg.Connection) -> None:
        async with source.transaction():
            await source.execute(_LOCK_TIMEOUT)
            await source.execute(_SQL["lock_keys"].text)
            pid = source.get_server_pid()
            await switchover.close_database(self.server, self.names.current, pid)


async def _require_same_revision(source: asyncpg.Connection, target: asyncpg.Connection) -> None:
    old, new = await list_revisions(source), await list_revisions(target)
    if old != new:
        fault = f"the database is at revision {', '.join(old)} and this version at {', '.join(new)}"
        remedy = "bring both to the same with `butlers up`, then run this with --abandon and again"
        raise Unavailable(f"{fault}; {remedy}")


def _require_same_tables(old: Sequence[TableCopy], new: Sequence[TableCopy]) -> None:
    if [(t.name, t.columns) for t in old] != [(t.name, t.columns) for t in new]:
        raise Unavailable("the database has tables or columns that this version does not make")


async def _catch_up(replication: Replication) -> list[TableCopy]:
    """Apply changes until few are left; return tables whose row counts could not be seen equal."""
    unequal = list(replication.tables)
    for _ in range(_ROUNDS):
        began = monotonic()
        await replication.catch_up()
        if monotonic() - began < _QUICK_SECONDS:
            unequal = [
                table
                for table in unequal
                if await count_rows(replication.source, table)
                != await count_rows(replication.target, table)
            ]
        if len(unequal) < len(replication.tables):
            break
    await replication.catch_up()
    return unequal


async def _copy_small(
    source: asyncpg.Connection, target: asyncpg.Connection, table: TableCopy
) -> None:
    """Copy a table that belongs to no tenant and is never large."""
    rows = await read_rows(source, table.select)
    async with replica_transaction(target):
        await target.execute(table.delete)
        await write_rows(target, table, rows)


async def _compare(
    source: asyncpg.Connection, target: asyncpg.Connection, tables: Sequence[TableCopy]
) -> None:
    """Refuse where row counts differ, or the last events of a tenant's chain."""
    for table in tables:
        old, new = await count_rows(source, table), await count_rows(target, table)
        if old != new:
            raise IntegrityViolation(f"{table.name} has {old} rows, and {new} were copied")
    last_events = _SQL["last_events"].text
    if await source.fetch(last_events) != await target.fetch(last_events):
        raise IntegrityViolation("the last copied events differ from those of the old database")
