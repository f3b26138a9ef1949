"""Copy tables page by page while they are written to, then apply what changed meanwhile.

Triggers note each change by the key of its row alone. Applying a change copies the row as it then
is, so applying it twice does no harm. A run that was stopped goes on at the page where it was.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from time import monotonic

import asyncpg

from butlers.db.queries import load
from butlers.errors import Conflict, Unavailable
from butlers_cluster.tables import TableCopy, count_rows, quote_name, read_rows, write_rows

_SQL = load(__file__)
# Everybody else waits behind one who waits for a table, so not for long.
_LOCK_TIMEOUT = "set local lock_timeout = '1s'"
_TRIES, _PAUSE_SECONDS = 60, 0.5
_PAGE_ROWS, _CHANGES_AT_ONCE, _KEYS_AT_ONCE = 2_000, 5_000, 1_000

# A copied row clashes with one that has changed since: applying that change first makes room.
_CLASHES = (asyncpg.UniqueViolationError, asyncpg.ExclusionViolationError)


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The step that a move is at, and how far it is."""

    step: str
    table: str = ""
    rows: int = 0
    of_rows: int = 0
    rows_per_second: int = 0


Report = Callable[[CopyProgress], None]


@dataclass(frozen=True, slots=True)
class _CopiedPages:
    last_key: str | None = None
    rows: int = 0
    of_rows: int = 0
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Replication:
    """Bring the tables of one database to another, and keep them alike."""

    source: asyncpg.Connection
    target: asyncpg.Connection
    tables: Sequence[TableCopy]
    report: Report

    async def copy(self) -> None:
        """Copy every row that was there at the start."""
        for table in self.tables:
            pages = await self._copied_pages(table)
            began, rows_before = monotonic(), pages.rows
            while not pages.is_done:
                pages = await self._copy_page(table, pages)
                rate = round((pages.rows - rows_before) / max(monotonic() - began, 0.001))
                self.report(CopyProgress("copy", table.name, pages.rows, pages.of_rows, rate))

    async def catch_up(self) -> int:
        """Apply all changes noted so far; return how many."""
        changes = await self._apply_changes()
        self.report(CopyProgress("catch up", rows=changes))
        return changes

    async def _copied_pages(self, table: TableCopy) -> _CopiedPages:
        row = await self.target.fetchrow(_SQL["progress"].positional, table.name)
        if row:
            return _CopiedPages(**row)
        return _CopiedPages(of_rows=await count_rows(self.source, table))

    async def _copy_page(self, table: TableCopy, pages: _CopiedPages) -> _CopiedPages:
        end = await self._page_end(table, pages.last_key)
        for attempt in range(_TRIES):
            try:
                return await self._write_page(table, pages, end, replace_rows=attempt > 0)
            except _CLASHES:
                # First replace rows of this page that a change brought; then it is another page's.
                if attempt > 0:
                    await self._apply_changes()
        raise Unavailable(f"{table.name} cannot be copied: rows still conflict after every retry")

    async def _page_end(self, table: TableCopy, after: str | None) -> str | None:
        """Return the key of the next page's last row; None for the last page."""
        keys = f"{table.select_keys} where {table.between(after, None)} order by {table.order}"
        end: str | None = await self.source.fetchval(f"{keys} offset {_PAGE_ROWS - 1} limit 1")
        return end

    async def _write_page(
        self, table: TableCopy, pages: _CopiedPages, end: str | None, *, replace_rows: bool
    ) -> _CopiedPages:
        """Write a page and note it in one transaction."""
        condition = f"where {table.between(pages.last_key, end)}"
        page = await read_rows(self.source, f"{table.select} {condition}")
        async with replica_transaction(self.target):
            if replace_rows:
                await self.target.execute(f"{table.delete} {condition}")
            rows = pages.rows + await write_rows(self.target, table, page)
            now = replace(pages, last_key=end, rows=rows, is_done=end is None)
            await self.target.execute(*_SQL["save_progress"].bound(table=table.name, **asdict(now)))
        return now

    async def _apply_changes(self) -> int:
        by_tenant = await self.source.fetch(_SQL["count_changes"].text)
        return sum([await self._apply_to(tenants) for tenants in _groups(by_tenant)])

    async def _apply_to(self, tenants: Sequence[str]) -> int:
        for _ in range(_TRIES):
            changes = await self.source.fetch(*_SQL["changes"].bound(tenants=tenants))
            keys: dict[str, set[str]] = {}
            for change in changes:
                keys.setdefault(change["table_name"], set()).add(change["key"])
            try:
                await self._replace_rows(tenants, keys)
            except _CLASHES:
                continue
            ids = [change["id"] for change in changes]
            await self.source.fetch(*_SQL["delete_changes"].bound(tenants=tenants, ids=ids))
            return len(changes)
        raise Unavailable("changes cannot be applied: rows still conflict after every retry")

    async def _replace_rows(self, tenants: Sequence[str], keys: dict[str, set[str]]) -> None:
        """Delete the rows with these keys, then copy those that the source still has."""
        tables = [(table, keys[table.name]) for table in self.tables if table.name in keys]
        async with replica_transaction(self.target):
            for table, of_table in tables:
                for batch in _batches(of_table):
                    await self.target.execute(table.delete_changed, batch, tenants)
            for table, of_table in tables:
                for batch in _batches(of_table):
                    rows = await read_rows(self.source, table.select_changed, batch, tenants)
                    await write_rows(self.target, table, rows)


def _groups(by_tenant: Sequence[asyncpg.Record]) -> list[list[str]]:
    """Group tenants that have few changes; never split the changes of one."""
    groups: list[list[str]] = []
    room = 0
    for row in by_tenant:
        if not groups or row["changes"] > room:
            groups.append([])
            room = _CHANGES_AT_ONCE
        groups[-1].append(row["tenant_id"])
        room -= row["changes"]
    return groups


def _batches(keys: set[str]) -> list[str]:
    rest = iter(sorted(keys))
    batches = []
    while batch := list(islice(rest, _KEYS_AT_ONCE)):
        batches.append(json.dumps([json.loads(key) for key in batch]))
    return batches


async def prepare_copy(target: asyncpg.Connection) -> None:
    """Create the table that notes how far each table was copied."""
    await target.execute(_SQL["create_progress"].text)


@asynccontextmanager
async def replica_transaction(target: asyncpg.Connection) -> AsyncIterator[None]:
    """Open a transaction that takes rows as they are, without triggers and foreign keys."""
    async with target.transaction():
        await target.execute("set local session_replication_role = replica")
        yield


async def capture_changes(
    source: asyncpg.Connection, tables: Sequence[TableCopy], *, distributed: bool
) -> None:
    """Note every change of these tables from here on, by triggers; safe to repeat."""
    await source.execute(_SQL["create_changes"].text)
    if distributed:
        await source.fetchval(_SQL["distribute_changes"].text)
    captured = {row["name"] for row in await source.fetch(_SQL["captured_tables"].text)}
    for table in tables:
        if table.name not in captured:
            await retry_on_lock(partial(_create_trigger, source, table))


async def _create_trigger(source: asyncpg.Connection, table: TableCopy) -> None:
    async with source.transaction():
        await source.execute(_LOCK_TIMEOUT)
        if await source.fetchval("select to_regclass('pg_dist_partition') is not null"):
            await source.execute("set local citus.enable_unsafe_triggers = on")
            await source.execute("set local citus.multi_shard_modify_mode = sequential")
        definition = _SQL["trigger_function"].bound(
            table=table.name,
            tenant_column=table.tenant_column,
            old_key=table.row_key("old"),
            new_key=table.row_key("new"),
        )
        await source.execute(await source.fetchval(*definition))
        name = quote_name(table.name)
        await source.execute(
            f"create trigger moving_note after insert or update or delete on {name} "
            f"for each row execute function moving.{name}()"
        )


async def stop_capture(source: asyncpg.Connection) -> None:
    """Drop the triggers, and the changes they noted."""
    for row in await source.fetch(_SQL["captured_tables"].text):
        await retry_on_lock(partial(_drop_trigger, source, row["name"]))
    await source.execute("drop schema if exists moving cascade")


async def _drop_trigger(source: asyncpg.Connection, table: str) -> None:
    async with source.transaction():
        await source.execute(_LOCK_TIMEOUT)
        await source.execute(f"drop trigger if exists moving_note on {table}")


async def retry_on_lock(step: Callable[[], Awaitable[None]]) -> None:
    """Try a step again while others hold the lock it needs, with pauses in which they go on."""
    for _ in range(_TRIES):
        try:
            return await step()
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(_PAUSE_SECONDS)
    raise Conflict("another session holds locks on the tables of the database; try again later")
