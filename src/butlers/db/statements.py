"""Statements as functions: `find = Rows(SQL["find"])` is called `await find(tx, ids=ids)`.

The class says what a call returns; the transaction adds `tenant_id`.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import NamedQuery

T = TypeVar("T")


@dataclass(frozen=True)
class Statement(Generic[T]):
    """A statement to call with a transaction and values."""

    query: NamedQuery
    run: ClassVar[Callable[..., Coroutine[Any, Any, Any]]]

    def __call__(self, tx: Transaction, /, **values: object) -> Coroutine[Any, Any, T]:
        return type(self).run(tx, self.query, **values)


class Rows(Statement[list[Row]]):
    """Returns every row."""

    run = Transaction.fetch


class FirstRow(Statement[Row | None]):
    """Returns the first row, or None."""

    run = Transaction.fetch_one


class OnlyRow(Statement[Row]):
    """Returns the only row of a statement that always has one: a count, or a locked row."""

    async def __call__(self, tx: Transaction, /, **values: object) -> Row:
        row = await tx.fetch_one(self.query, **values)
        assert row is not None, f"{self.query.name} always has a row"
        return row


class FirstValue(Statement[T | None]):
    """Returns the first column of the first row, or None: `FirstValue[str](SQL["retract"])`."""

    run = Transaction.fetch_value


class OnlyValue(Statement[T]):
    """Returns the one column of a statement that always has one row."""

    run = Transaction.fetch_value


class Touched(Statement[int]):
    """Returns how many rows were touched."""

    run = Transaction.execute
