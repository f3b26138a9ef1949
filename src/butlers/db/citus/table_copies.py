"""The tables of a butler's database as rows to be carried: read from the catalog, never listed."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from butlers.db.queries import load

_SQL = load(__file__)
_STATEMENTS = ("counting", "emptying", "reading", "placing", "taking", "dropping")


@dataclass(frozen=True, slots=True)
class TableCopy:
    """A table: what is written to it, and what tells its rows apart.

    `key` begins with the tenant where rows are a tenant's; rows are paged by `order`, the primary
    key that the database has.
    """

    name: str
    tenant_column: str | None
    columns: tuple[str, ...]
    key: tuple[str, ...]
    order: tuple[tuple[str, str], ...]
    counting: str
    emptying: str
    reading: str
    placing: str
    taking: str
    dropping: str

    def row_key(self, row: str) -> str:
        """What tells a row apart, as one value."""
        pairs = (f"'{column}', {row}.{name(column)}" for column in self.key)
        return f"jsonb_build_object({', '.join(pairs)})"

    def within(self, after: str | None, until: str | None) -> str:
        """What holds for rows after a place and up to a place, where there are such."""
        ordered = f"({names([column for column, _ in self.order])})"
        bounds = [(">", after), ("<=", until)]
        told = [f"{ordered} {sign} {self._told(at)}" for sign, at in bounds if at is not None]
        return " and ".join(told) or "true"

    def _told(self, place: str) -> str:
        values = json.loads(place)
        told = (f"{_literal(str(values[column]))}::{kind}" for column, kind in self.order)
        return f"({', '.join(told)})"


async def tables_of(connection: asyncpg.Connection) -> list[TableCopy]:
    """Every table of ours but what says who may enter and how new the database is."""
    return [_table(row) for row in await connection.fetch(_SQL["tables"].text)]


async def revisions_of(connection: asyncpg.Connection) -> list[str]:
    """What the database was migrated to."""
    return [row["version_num"] for row in await connection.fetch(_SQL["revisions"].text)]


async def is_spread(connection: asyncpg.Connection) -> bool:
    """Whether the tenants of a database are spread over nodes."""
    if not await connection.fetchval("select to_regclass('pg_dist_partition') is not null"):
        return False
    return bool(await connection.fetchval("select exists (select from pg_dist_partition)"))


async def read(source: asyncpg.Connection, query: str, *arguments: object) -> io.BytesIO:
    """What a query finds, as the driver hands it on."""
    found = io.BytesIO()
    await source.copy_from_query(query, *arguments, output=found, format="binary")
    found.seek(0)
    return found


async def write(target: asyncpg.Connection, table: TableCopy, rows: io.BytesIO) -> int:
    """Rows are in a table as they were read; how many there are."""
    status = await target.copy_to_table(
        table.name, source=rows, columns=table.columns, format="binary"
    )
    return int(status.rsplit(" ", 1)[-1])


async def count(connection: asyncpg.Connection, table: TableCopy) -> int:
    """How many rows a table has."""
    found: int = await connection.fetchval(table.counting)
    return found


def name(identifier: str) -> str:
    """A name as SQL has it."""
    return '"' + identifier.replace('"', '""') + '"'


def names(identifiers: Sequence[str]) -> str:
    """Names as SQL lists them."""
    return ", ".join(name(one) for one in identifiers)


def _table(row: asyncpg.Record) -> TableCopy:
    order = tuple(zip(row["ordered"], row["ordered_types"], strict=True))
    told = {said: row[said] for said in _STATEMENTS}
    columns, key = tuple(row["columns"]), tuple(row["key"] or ())
    return TableCopy(row["name"], row["tenant_column"], columns, key, order, **told)


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
