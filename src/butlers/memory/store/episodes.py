"""Episodes in the database."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load

_SQL = load(__file__)


async def insert(tx: Transaction, row: dict[str, Any]) -> Row | None:
    """Add an episode; None when its idempotency key is taken."""
    return await tx.fetch_one(_SQL["insert"], **row)


async def get_by_idempotency_key(tx: Transaction, key: str) -> Row | None:
    """The episode stored under a key, or None."""
    return await tx.fetch_one(_SQL["by_idempotency_key"], idempotency_key=key)


async def exists(tx: Transaction, episode_id: UUID) -> bool:
    """Whether the tenant has this episode."""
    return bool(await tx.fetch_value(_SQL["exists"], id=episode_id))


async def reference(tx: Transaction, ids: Sequence[UUID], now: datetime) -> list[Row]:
    """The episodes, counted as read."""
    return await tx.fetch(_SQL["reference"], ids=ids, now=now)


async def find(tx: Transaction, ids: Sequence[UUID]) -> list[Row]:
    """The episodes, not counted as read."""
    return await tx.fetch(_SQL["find"], ids=ids)


async def forget(tx: Transaction, episode_id: UUID, now: datetime) -> Row | None:
    """Let an episode expire now; how it was before, or None when it is gone or had expired."""
    return await tx.fetch_one(_SQL["forget"], id=episode_id, now=now)


async def find_recent(tx: Transaction, butler: str, limit: int, now: datetime) -> list[Row]:
    """The newest episodes of a butler that have not expired."""
    return await tx.fetch(_SQL["recent"], butler=butler, limit=limit, now=now)
