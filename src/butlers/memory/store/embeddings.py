"""Which models made the vectors, and which of them is in use."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.embedding import Embedder
from butlers.memory.model import VersionState

_SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A model as one tenant knows it; `scattered` while vectors of it lie aside."""

    id: UUID
    model: str
    version: str
    dimensions: int
    directory: str
    state: VersionState
    scattered: bool
    created_at: datetime

    @property
    def name(self) -> str:
        """The model and version in words."""
        return f"{self.model} {self.version}"

    def made_by(self, embedder: Embedder) -> bool:
        """Whether this embedder makes vectors that compare with those of the version."""
        return (embedder.model, embedder.version) == (self.model, self.version)


async def register_version(
    tx: Transaction, version_id: UUID, embedder: Embedder, directory: str, now: datetime
) -> UUID:
    """The id under which the embedder's model and version are known to this tenant.

    The first is in use from then on; any later one lies aside until the tenant moves to it.
    """
    found: UUID | None = await tx.fetch_value(
        _SQL["register_version"],
        id=version_id,
        model=embedder.model,
        version=embedder.version,
        dimensions=embedder.dimensions,
        directory=directory,
        now=now,
    )
    if found is not None:
        return found
    # A racing writer's row is invisible to this statement's snapshot; the next one sees it.
    return await register_version(tx, version_id, embedder, directory, now)


async def find_versions(tx: Transaction) -> list[ModelVersion]:
    """Every model known to this tenant, newest first."""
    rows = await tx.fetch(_SQL["versions"])
    return [_version(row) for row in rows]


async def hold(tx: Transaction) -> None:
    """Wait for writers of vectors to finish, and let no other begin until the transaction ends."""
    await tx.fetch(_SQL["hold"])


async def join(tx: Transaction, version_id: UUID) -> VersionState:
    """The state of a version, which cannot change before the transaction ends."""
    return VersionState(await tx.fetch_value(_SQL["join"], id=version_id))


async def leave(tx: Transaction, was: VersionState, state: VersionState) -> None:
    """Whatever version was in one state is in another from now on."""
    await tx.execute(_SQL["leave"], was=was, state=state)


async def enter(tx: Transaction, version_id: UUID, state: VersionState) -> None:
    """One version is in a state from now on."""
    await tx.execute(_SQL["enter"], id=version_id, state=state)


async def locate(tx: Transaction, version_id: UUID, directory: str) -> None:
    """A version's model is found in a directory from now on; an empty one means the installed."""
    await tx.execute(_SQL["locate"], id=version_id, directory=directory)


def _version(row: Row) -> ModelVersion:
    return ModelVersion(
        id=row["id"],
        model=row["model"],
        version=row["version"],
        dimensions=row["dimensions"],
        directory=row["directory"],
        state=VersionState(row["state"]),
        scattered=row["scattered"],
        created_at=row["created_at"],
    )
