"""How memories moved from state to state, day by day."""

from datetime import date

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load

_SQL = load(__file__)


async def find_moves(tx: Transaction, first_day: date, last_day: date) -> list[Row]:
    """How many facts and episodes went from which state to which on each day."""
    return await tx.fetch(_SQL["moves"], first_day=first_day, last_day=last_day)
