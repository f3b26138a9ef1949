"""How much is remembered, counted by the database."""

from datetime import datetime

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load

_SQL = load(__file__)


async def count(tx: Transaction, scope: str | None, now: datetime) -> Row:
    """Every count of the tenant, and when an episode of it was last consolidated, in one row.

    A scope narrows facts and rules, and adds `global`.
    """
    counted = await tx.fetch_one(_SQL["count"], scope=scope, now=now)
    assert counted is not None, "an aggregate always has a row"
    return counted
