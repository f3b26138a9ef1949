"""Statements as functions: `find = Rows(SQL["find"])` is called `await find(tx, ids=ids)`.

The class says what a call returns; the transaction adds `tenant_id`.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import NamedQuery

T = TypeVar("T")


@dataclass(frozen=True)
class Statement:
    """A statement to call with a transaction and values."""

    query: NamedQuery


@dataclass(frozen=True)
class Rows(Statement):
    """Returns every row."""

    async def __call__(self, tx: Transaction, /, **values: object) -> list[Row]:
        return await tx.fetch(self.query, **values)


@dataclass(frozen=True)
class FirstRow(Statement):
    """Returns the first row, or None."""

    async def __call__(self, tx: Transaction, /, **values: object) -> Row | None:
        return await tx.fetch_one(self.query, **values)


@dataclass(frozen=True)
class OnlyRow(Statement):
    """Returns the only row of a statement that always has one: a count, or a locked row."""

    async def __call__(self, tx: Transaction, /, **values: object) -> Row:
        row = await tx.fetch_one(self.query, **values)
        assert row is not None, f"{self.query.name} always has a row"
        return row


@dataclass(frozen=True)
class FirstValue(Statement, Generic[T]):
    """Returns the first column of the first row, or None: `FirstValue[str](SQL["retract"])`."""

    async def __call__(self, tx: Transaction, /, **values: object) -> T | None:
        return cast(T | None, await tx.fetch_value(self.query, **values))


@dataclass(frozen=True)
class OnlyValue(Statement, Generic[T]):
    """Returns the one column of a statement that always has one row."""

    async def __call__(self, tx: Transaction, /, **values: object) -> T:
        return cast(T, await tx.fetch_value(self.query, **values))


@dataclass(frozen=True)
class Touched(Statement):
    """Returns how many rows were touched."""

    async def __call__(self, tx: Transaction, /, **values: object) -> int:
        return await tx.execute(self.query, **values)
