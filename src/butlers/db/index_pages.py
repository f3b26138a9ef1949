"""Check the pages of indexes with PostgreSQL's own `amcheck`, and read sequences, as the owner."""

import asyncpg

from butlers.db.driver_errors import brief
from butlers.db.primary_connector import connected
from butlers.db.queries import load

_SQL = load(__file__)
_BTREE = "select bt_index_check(index => $1::text::regclass, heapallindexed => $2)"
_GIN = "select gin_index_check($1::text::regclass) where $2::boolean is not null"
_DAMAGE = (asyncpg.IndexCorruptedError, asyncpg.DataCorruptedError, asyncpg.PostgresSystemError)


async def check_pages(owner_dsn: str) -> tuple[dict[str, str], str]:
    """Return the damaged indexes with what is wrong, and why none was checked if that is so.

    The extension is created in a transaction that is rolled back, so nothing stays of it.
    """
    async with connected(owner_dsn) as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute("create extension if not exists amcheck")
            return await _damaged_indexes(connection), ""
        except asyncpg.PostgresError as error:
            return {}, brief(error)
        finally:
            await transaction.rollback()


async def _damaged_indexes(connection: asyncpg.Connection) -> dict[str, str]:
    damaged: dict[str, str] = {}
    for row in await connection.fetch(_SQL["find_indexes"].positional):
        try:
            async with connection.transaction():
                call = _BTREE if row["is_btree"] else _GIN
                await connection.fetch(call, row["name"], row["is_small"])
        except _DAMAGE as error:
            damaged[row["name"]] = brief(error)
    return damaged


async def sequences(owner_dsn: str) -> dict[str, int]:
    """Return the last number given out for the identity column of each table that has one."""
    async with connected(owner_dsn) as connection:
        rows = await connection.fetch(_SQL["find_sequences"].positional)
    return {row["table"]: row["last"] for row in rows}
