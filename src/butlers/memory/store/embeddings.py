"""Which models made the vectors, and which of them is in use."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstValue, Rows, Touched
from butlers.embedding import Embedder
from butlers.memory.model import VersionState

_SQL = load(__file__)

hold = Rows(_SQL["hold"])
leave = Touched(_SQL["leave"])
enter = Touched(_SQL["enter"])
locate = Touched(_SQL["locate"])

_register_version = FirstValue[UUID](_SQL["register_version"])
_find_versions = Rows(_SQL["find_versions"])
_join = FirstValue[str](_SQL["join"])


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A model as one tenant knows it."""

    id: UUID
    model: str
    version: str
    dimensions: int
    directory: str
    state: VersionState
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
    found = await _register_version(
        tx,
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
    return [as_version(row) for row in await _find_versions(tx)]


async def join(tx: Transaction, version_id: UUID) -> VersionState:
    """The state of a version, which cannot change before the transaction ends."""
    return VersionState(await _join(tx, id=version_id) or "")


def as_version(row: Row) -> ModelVersion:
    """A version from its row."""
    return ModelVersion(**{**row, "state": VersionState(row["state"])})
