"""Statements as functions: `find = Rows(SQL["find"])` is called `await find(tx, ids=ids)`.

What a statement means is said above it, where it stands; here only what is wanted of its answer.
Its parameters are given by name, all but `tenant_id`, which the transaction knows.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import NamedQuery

T = TypeVar("T")


@dataclass(frozen=True)
class Statement:
    """A statement, waiting for a transaction and its values."""

    query: NamedQuery


@dataclass(frozen=True)
class Rows(Statement):
    """Every row of the answer."""

    async def __call__(self, tx: Transaction, /, **values: object) -> list[Row]:
        return await tx.fetch(self.query, **values)


@dataclass(frozen=True)
class FirstRow(Statement):
    """The first row of the answer, or None."""

    async def __call__(self, tx: Transaction, /, **values: object) -> Row | None:
        return await tx.fetch_one(self.query, **values)


@dataclass(frozen=True)
class OnlyRow(Statement):
    """The row of an answer that has one, whatever there is: a count, or a row held already."""

    async def __call__(self, tx: Transaction, /, **values: object) -> Row:
        row = await tx.fetch_one(self.query, **values)
        assert row is not None, f"{self.query.name} always has a row"
        return row


@dataclass(frozen=True)
class FirstValue(Statement, Generic[T]):
    """The first column of the first row, or None: `FirstValue[str](SQL["retract"])`."""

    async def __call__(self, tx: Transaction, /, **values: object) -> T | None:
        return cast(T | None, await tx.fetch_value(self.query, **values))


@dataclass(frozen=True)
class OnlyValue(Statement, Generic[T]):
    """The one column of the only row of an answer that always has one."""

    async def __call__(self, tx: Transaction, /, **values: object) -> T:
        return cast(T, await tx.fetch_value(self.query, **values))


@dataclass(frozen=True)
class Touched(Statement):
    """Run for its effect: how many rows it touched."""

    async def __call__(self, tx: Transaction, /, **values: object) -> int:
        return await tx.execute(self.query, **values)
