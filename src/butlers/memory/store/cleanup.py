"""The statements of the episode cleanup: claim a batch, keep what points to it, remove it."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load

_SQL = load(__file__)


async def take_turn(tx: Transaction) -> None:
    """Wait until no other cleanup of this tenant is in a batch."""
    await tx.execute(_SQL["take_turn"], key="\x1f".join(("butlers.cleanup", tx.tenant_id)))


async def claim_expired(tx: Transaction, limit: int, now: datetime) -> list[UUID]:
    """Expired episodes that nobody is working on, held until the transaction ends."""
    rows = await tx.fetch(_SQL["claim_expired"], limit=limit, now=now)
    return [row["id"] for row in rows]


async def claim_surplus(tx: Transaction, kept: int, limit: int, now: datetime) -> list[UUID]:
    """The oldest consolidated episodes beyond the number to be kept, held likewise."""
    rows = await tx.fetch(_SQL["claim_surplus"], kept=kept, limit=limit, now=now)
    return [row["id"] for row in rows]


async def keep_sources(tx: Transaction, ids: Sequence[UUID], now: datetime) -> int:
    """Link the facts and rules drawn from episodes to them by id; how many had no link yet."""
    return await tx.execute(_SQL["keep_sources"], ids=ids, now=now)


async def remove(tx: Transaction, ids: Sequence[UUID]) -> list[Row]:
    """Delete claimed episodes; what each was."""
    return await tx.fetch(_SQL["remove"], ids=ids)


async def count_remaining(tx: Transaction) -> int:
    """How many episodes the tenant has."""
    count: int = await tx.fetch_value(_SQL["remaining"])
    return count
