"""Entities in the database."""

from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.db.queries import load
from butlers.errors import NotFound

_SQL = load(__file__)


async def hold_living(tx: Transaction, entity_id: UUID) -> None:
    """Keep an entity from being merged away meanwhile; one that is gone is refused."""
    row = await tx.fetch_one(_SQL["hold_living"], tenant_id=tx.tenant_id, id=entity_id)
    if row is None:
        raise NotFound(f"entity_id: entity {entity_id} does not exist; create it first")
    if row["merged_into"] is not None:
        raise NotFound(
            f"entity_id: entity {entity_id} does not exist any more; "
            f"it was merged into {row['merged_into']}, use that"
        )
