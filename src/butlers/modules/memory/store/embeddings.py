"""Which models made the vectors."""

from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.embedding import Embedder

_SQL = load(__file__)


async def register_version(
    tx: Transaction, version_id: UUID, embedder: Embedder, now: datetime
) -> UUID:
    """The id under which the embedder's model and version are known to this tenant."""
    found: UUID | None = await tx.fetch_value(
        _SQL["register_version"],
        id=version_id,
        tenant_id=tx.tenant_id,
        model=embedder.model,
        version=embedder.version,
        dimensions=embedder.dimensions,
        now=now,
    )
    # A racing writer's row is invisible to this statement's snapshot; the next one sees it.
    return found if found is not None else await register_version(tx, version_id, embedder, now)


async def get_version(tx: Transaction, embedder: Embedder) -> UUID | None:
    """The id of the embedder's model and version, or None where it never made a vector."""
    found: UUID | None = await tx.fetch_value(
        _SQL["version"], tenant_id=tx.tenant_id, model=embedder.model, version=embedder.version
    )
    return found


async def find_versions(tx: Transaction) -> list[Row]:
    """Every model that ever made a vector for this tenant, newest first."""
    return await tx.fetch(_SQL["versions"], tenant_id=tx.tenant_id)
