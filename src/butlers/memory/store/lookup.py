"""Finding out what an id, or the beginning of one, stands for."""

from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load

_SQL = load(__file__)


async def find_between(tx: Transaction, low: UUID, high: UUID, limit: int) -> list[Row]:
    """Kind and id of everything the tenant has or had from one id to another."""
    return await tx.fetch(_SQL["between"], low=low, high=high, limit=limit)
