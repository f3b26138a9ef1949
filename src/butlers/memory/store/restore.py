"""What was forgotten and is wanted back, in the database."""

from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.memory.store.facts import FactKey

_SQL = load(__file__)


async def get_retracted(tx: Transaction, fact_id: UUID) -> Row | None:
    """A retracted fact with its key and the state it `was` in before, or None."""
    return await tx.fetch_one(_SQL["retracted_fact"], id=fact_id)


async def get_key_holder(tx: Transaction, key: FactKey) -> UUID | None:
    """The active fact under a key, or None."""
    holder: UUID | None = await tx.fetch_value(
        _SQL["key_holder"],
        scope=key.scope,
        predicate=key.predicate,
        subject=key.subject,
        entity_id=key.entity_id,
    )
    return holder


async def restore_fact(tx: Transaction, fact_id: UUID, validity: str) -> bool:
    """Give a retracted fact another validity; false when it is retracted no longer."""
    touched = await tx.execute(_SQL["restore_fact"], id=fact_id, validity=validity)
    return touched == 1


async def restore_rule(tx: Transaction, rule_id: UUID) -> str | None:
    """Take a forgotten rule back into use; its state now, or None when none is forgotten."""
    state: str | None = await tx.fetch_value(_SQL["restore_rule"], id=rule_id)
    return state
