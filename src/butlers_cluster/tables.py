"""The tables of a butler's database as rows to copy: read from the catalog, never listed."""

import io
import json
from dataclasses import dataclass

import asyncpg

from butlers.db.primary_connector import connected
from butlers.db.queries import load
from butlers_cluster.nodes import ClusterNode

_SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class TableCopy:
    """A table to copy: its columns, its key and the statements that copying needs.

    `key` begins with the tenant where rows belong to tenants; rows are paged by the columns of the
    primary key, `ordered`. The statements for changed rows take keys as a JSON array, and tenants.
    """

    name: str
    tenant_column: str | None
    columns: list[str]
    ordered: list[str]
    ordered_types: list[str]
    key: list[str]
    count: str
    delete: str
    select: str
    select_keys: str
    select_changed: str
    delete_changed: str

    def row_key(self, row: str) -> str:
        """Return the SQL expression of a row's key as one JSON value."""
        pairs = (f"'{column}', {row}.{quote_name(column)}" for column in self.key)
        return f"jsonb_build_object({', '.join(pairs)})"

    def between(self, after: str | None, until: str | None) -> str:
        """Return the SQL condition for rows after one key and up to another, where given."""
        bounds = [(sign, key) for sign, key in ((">", after), ("<=", until)) if key is not None]
        limits = [f"({self.order}) {sign} {self._key_literal(key)}" for sign, key in bounds]
        return " and ".join(limits) or "true"

    @property
    def order(self) -> str:
        """Return the columns that rows are paged by, for SQL."""
        return ", ".join(map(quote_name, self.ordered))

    def _key_literal(self, key: str) -> str:
        values, typed = json.loads(key), zip(self.ordered, self.ordered_types, strict=True)
        literals = (f"{_quote(str(values[column]))}::{kind}" for column, kind in typed)
        return f"({', '.join(literals)})"


async def list_tables(connection: asyncpg.Connection) -> list[TableCopy]:
    """List every table of ours but the keys of tenant proofs and the revision."""
    return [TableCopy(**row) for row in await connection.fetch(_SQL["tables"].text)]


async def list_revisions(connection: asyncpg.Connection) -> list[str]:
    """List the revisions that the database was migrated to."""
    return [row["version_num"] for row in await connection.fetch(_SQL["revisions"].text)]


async def read_rows(source: asyncpg.Connection, query: str, *arguments: object) -> io.BytesIO:
    """Read the rows of a query in PostgreSQL's binary copy format."""
    rows = io.BytesIO()
    await source.copy_from_query(query, *arguments, output=rows, format="binary")
    rows.seek(0)
    return rows


async def write_rows(target: asyncpg.Connection, table: TableCopy, rows: io.BytesIO) -> int:
    """Write rows in binary copy format to a table; return how many."""
    status = await target.copy_to_table(
        table.name, source=rows, columns=table.columns, format="binary"
    )
    return int(status.rsplit(" ", 1)[-1])


async def count_rows(connection: asyncpg.Connection, table: TableCopy) -> int:
    """Count the rows of a table."""
    count: int = await connection.fetchval(table.count)
    return count


async def advance_sequences(target: asyncpg.Connection, dsn: str, *, distributed: bool) -> None:
    """Set every identity sequence above the values in its table, on each node that counts.

    Each node counts in a range of its own, named by the upper bits; the coordinator in the first.
    """
    for column in await target.fetch(_SQL["identity_columns"].text):
        last = {row["node_range"]: row["last"] for row in await target.fetch(column["last_values"])}
        if last and not distributed:
            last = {0: max(last.values())}
        for node_range, value in last.items():
            await _advance(target, dsn, node_range, (column["sequence"], value))


async def _advance(
    target: asyncpg.Connection, dsn: str, node_range: int, sequence: tuple[str, int]
) -> None:
    advance = _SQL["advance"].positional
    if not node_range:
        await target.fetchval(advance, *sequence)
        return
    node = await target.fetchrow(_SQL["node_of_range"].positional, node_range)
    if node is not None:
        async with connected(ClusterNode(**node).dsn(dsn)) as owner:
            await owner.fetchval(advance, *sequence)


def quote_name(identifier: str) -> str:
    """Quote a name for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def _quote(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
