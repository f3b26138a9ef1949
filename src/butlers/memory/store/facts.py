"""Facts in the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load

_SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class FactKey:
    """What makes an active fact unique: scope and predicate of an entity, or else of a subject."""

    scope: str
    predicate: str
    subject: str
    entity_id: UUID | None

    def lock_name(self, tenant_id: str) -> str:
        """A text equal for equal keys and different for different ones."""
        about = f"entity\x1f{self.entity_id}" if self.entity_id else f"subject\x1f{self.subject}"
        return "\x1f".join(("butlers.fact", tenant_id, self.scope, self.predicate, about))


async def take_turn(tx: Transaction, idempotency_key: str) -> None:
    """Writers of one idempotency key take turns, so that only the first supersedes anything."""
    name = "\x1f".join(("butlers.fact.once", tx.tenant_id, idempotency_key))
    await tx.execute(_SQL["lock_key"], key=name)


async def hold_key(tx: Transaction, key: FactKey) -> None:
    """Nobody else stores under the key until the transaction ends."""
    await tx.execute(_SQL["lock_key"], key=key.lock_name(tx.tenant_id))


async def supersede_active(tx: Transaction, key: FactKey) -> Row | None:
    """The active fact under the key gives way; its `id` and what state it `was` in, or None.

    Writers of one key take turns here, so that of two at once the later supersedes the earlier.
    """
    await hold_key(tx, key)
    return await tx.fetch_one(
        _SQL["supersede_active"],
        scope=key.scope,
        predicate=key.predicate,
        subject=key.subject,
        entity_id=key.entity_id,
    )


async def insert(tx: Transaction, row: dict[str, Any]) -> None:
    """Add a fact."""
    await tx.execute(_SQL["insert"], **row)


async def get_by_idempotency_key(tx: Transaction, key: str) -> Row | None:
    """The fact stored under a key, or None."""
    return await tx.fetch_one(_SQL["by_idempotency_key"], idempotency_key=key)


async def exists(tx: Transaction, fact_id: UUID) -> bool:
    """Whether the tenant has this fact."""
    return bool(await tx.fetch_value(_SQL["exists"], id=fact_id))


async def reference(tx: Transaction, ids: Sequence[UUID], now: datetime) -> list[Row]:
    """The facts, counted as read."""
    return await tx.fetch(_SQL["reference"], ids=ids, now=now)


async def find(tx: Transaction, ids: Sequence[UUID], now: datetime) -> list[Row]:
    """The facts, not counted as read."""
    return await tx.fetch(_SQL["find"], ids=ids, now=now)


async def confirm(tx: Transaction, fact_id: UUID, now: datetime) -> Row | None:
    """Confirm an active fact; how it was before, or None when there is no such active fact."""
    return await tx.fetch_one(_SQL["confirm"], id=fact_id, now=now)


async def retract(tx: Transaction, fact_id: UUID) -> str | None:
    """Retract a fact; its state before, or None when there is nothing to retract."""
    was: str | None = await tx.fetch_value(_SQL["retract"], id=fact_id)
    return was


async def find_replaced(tx: Transaction, fact_id: UUID, limit: int) -> list[Row]:
    """What a fact replaced, directly and through each other, the latest replaced first."""
    return await tx.fetch(_SQL["replaced"], id=fact_id, limit=limit)


async def find_replacements(tx: Transaction, fact_id: UUID, limit: int) -> list[Row]:
    """What replaced a fact, directly and through each other, the first to do so first."""
    return await tx.fetch(_SQL["replacements"], id=fact_id, limit=limit)
