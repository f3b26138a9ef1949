"""Rules in the database."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load

_SQL = load(__file__)


async def insert(tx: Transaction, row: dict[str, Any]) -> bool:
    """Add a rule; false when its idempotency key is taken."""
    return await tx.fetch_one(_SQL["insert"], **row) is not None


async def get_by_idempotency_key(tx: Transaction, key: str) -> Row | None:
    """The rule stored under a key, or None."""
    return await tx.fetch_one(_SQL["by_idempotency_key"], idempotency_key=key)


async def exists(tx: Transaction, rule_id: UUID) -> bool:
    """Whether the tenant has this rule."""
    return bool(await tx.fetch_value(_SQL["exists"], id=rule_id))


async def reference(tx: Transaction, ids: Sequence[UUID], now: datetime) -> list[Row]:
    """The rules, counted as read."""
    return await tx.fetch(_SQL["reference"], ids=ids, now=now)


async def find(tx: Transaction, ids: Sequence[UUID], now: datetime) -> list[Row]:
    """The rules, not counted as read."""
    return await tx.fetch(_SQL["find"], ids=ids, now=now)


async def lock(tx: Transaction, rule_id: UUID, now: datetime) -> Row | None:
    """One rule, held until the transaction ends, or None."""
    return await tx.fetch_one(_SQL["lock"], id=rule_id, now=now)


async def mark(tx: Transaction, rule_id: UUID, row: dict[str, Any], now: datetime) -> Row:
    """A locked rule after feedback."""
    marked = await tx.fetch_one(_SQL["mark"], id=rule_id, now=now, **row)
    assert marked is not None, "the caller holds the rule locked"
    return marked


async def invert(tx: Transaction, rule_id: UUID, row: dict[str, Any], now: datetime) -> Row:
    """A locked rule turned into a warning."""
    inverted = await tx.fetch_one(_SQL["invert"], id=rule_id, now=now, **row)
    assert inverted is not None, "the caller holds the rule locked"
    return inverted


async def confirm(tx: Transaction, rule_id: UUID, now: datetime) -> Row | None:
    """Confirm a rule; how it was before, or None when there is no such rule in use."""
    return await tx.fetch_one(_SQL["confirm"], id=rule_id, now=now)


async def forget(tx: Transaction, rule_id: UUID) -> str | None:
    """Forget a rule; its state before, or None when there is nothing to forget."""
    was: str | None = await tx.fetch_value(_SQL["forget"], id=rule_id)
    return was


async def find_awaiting_inversion(tx: Transaction) -> list[Row]:
    """The rules that are to become warnings and are not yet, in id order."""
    return await tx.fetch(_SQL["awaiting_inversion"])
