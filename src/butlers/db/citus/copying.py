"""Copying tables page by page, so that whoever is stopped goes on at the page where it was."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic

import asyncpg

from butlers.db.citus.following import CROWDED, carrying, catch_up
from butlers.db.citus.table_copies import TableCopy, count, name, read, write
from butlers.db.queries import load
from butlers.errors import Unavailable

_SQL = load(__file__)
_PAGE_ROWS, _TRIES = 2_000, 60


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """What is being done, and how far it is."""

    step: str
    table: str = ""
    rows: int = 0
    of_rows: int = 0
    rows_per_second: int = 0


Tell = Callable[[CopyProgress], None]


@dataclass(frozen=True, slots=True)
class _Copied:
    place: str | None = None
    rows: int = 0
    of_rows: int = 0
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Copying:
    """Two databases, one of which becomes like the other."""

    source: asyncpg.Connection
    target: asyncpg.Connection
    tables: Sequence[TableCopy]
    tell: Tell

    async def prepare(self) -> None:
        """There is a place to note how far each table was copied."""
        await self.target.execute(_SQL["ledger"].text)

    async def copy(self) -> None:
        """Every row that was there at the start is in the target, as it was when it was read."""
        for table in self.tables:
            await self._copy_table(table)

    async def catch_up(self) -> int:
        """What changed since is carried too; how many changes that were."""
        carried = await catch_up(self.source, self.target, self.tables)
        self.tell(CopyProgress("catch up", rows=carried))
        return carried

    async def _copy_table(self, table: TableCopy) -> None:
        so_far = await self._so_far(table)
        began, at_first = monotonic(), so_far.rows
        while not so_far.is_done:
            so_far = await self._copy_page(table, so_far)
            rate = (so_far.rows - at_first) / max(monotonic() - began, 0.001)
            self.tell(CopyProgress("copy", table.name, so_far.rows, so_far.of_rows, round(rate)))

    async def _so_far(self, table: TableCopy) -> _Copied:
        found = await self.target.fetchrow(_SQL["copied"].positional, table.name)
        return _Copied(**found) if found else _Copied(of_rows=await count(self.source, table))

    async def _copy_page(self, table: TableCopy, so_far: _Copied) -> _Copied:
        end = await self._page_end(table, so_far.place)
        for tries in range(_TRIES):
            try:
                return await self._write_page(table, so_far, end, again=tries > 0)
            except CROWDED:
                # Rows of the page may be there already; only then it is a row of another page.
                if tries > 0:
                    await catch_up(self.source, self.target, self.tables)
        raise Unavailable(f"{table.name} cannot be copied: rows clash however often it is tried")

    async def _page_end(self, table: TableCopy, after: str | None) -> str | None:
        """The place of the last row of the next page; None where that is the last page."""
        ordered = ", ".join(name(column) for column, _ in table.order)
        end: str | None = await self.source.fetchval(
            f"{table.placing} where {table.within(after, None)} "
            f"order by {ordered} offset {_PAGE_ROWS - 1} limit 1"
        )
        return end

    async def _write_page(
        self, table: TableCopy, so_far: _Copied, end: str | None, *, again: bool
    ) -> _Copied:
        """A page is there and that it is there is noted, both or neither.

        Where changes were carried meanwhile, some of its rows may be there already.
        """
        within = f"where {table.within(so_far.place, end)}"
        page = await read(self.source, f"{table.reading} {within}")
        async with carrying(self.target):
            if again:
                await self.target.execute(f"{table.emptying} {within}")
            rows = so_far.rows + await write(self.target, table, page)
            now = replace(so_far, place=end, rows=rows, is_done=end is None)
            values = {field: getattr(now, field) for field in _Copied.__slots__}
            await self.target.execute(*_SQL["note"].bound(table=table.name, **values))
        return now
