"""Statements as functions: `find = Rows(SQL["find"])` is called `await find(tx, ids=ids)`.

The class says what a call returns; the transaction adds `tenant_id`.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import NamedQuery

T = TypeVar("T")


@dataclass(frozen=True)
class Statement(Generic[T]):
    """A statement to call with a transaction and values."""

    query: NamedQuery
    method: ClassVar[str]
    """The method of a transaction that runs it."""

    def __call__(self, tx: Transaction, /, **values: object) -> Coroutine[Any, Any, T]:
        result = getattr(tx, self.method)(self.query, **values)
        return cast(Coroutine[Any, Any, T], result)


class Rows(Statement[list[Row]]):
    """Returns every row."""

    method = "fetch"


class FirstRow(Statement[Row | None]):
    """Returns the first row, or None."""

    method = "fetch_one"


class OnlyRow(Statement[Row]):
    """Returns the only row of a statement that always has one: a count, or a locked row."""

    async def __call__(self, tx: Transaction, /, **values: object) -> Row:
        row = await tx.fetch_one(self.query, **values)
        assert row is not None, f"{self.query.name} always has a row"
        return row


class FirstValue(Statement[T | None]):
    """Returns the first column of the first row, or None: `FirstValue[str](SQL["retract"])`."""

    method = "fetch_value"


class OnlyValue(Statement[T]):
    """Returns the one column of a statement that always has one row."""

    method = "fetch_value"


class Touched(Statement[int]):
    """Returns how many rows were touched."""

    method = "execute"
