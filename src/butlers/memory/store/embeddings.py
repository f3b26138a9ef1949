"""The models that made the vectors, and the vectors that lie aside."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from uuid import UUID

from pgvector import Vector

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstValue, OnlyRow, Rows, Touched
from butlers.embedding import Embedder
from butlers.memory.model import MemoryType, VersionState

_SQL = load(__file__)

hold = Rows(_SQL["hold"])
leave = Touched(_SQL["leave"])
enter = Touched(_SQL["enter"])
locate = Touched(_SQL["locate"])

_register_version = FirstValue[UUID](_SQL["register_version"])
_find_versions = Rows(_SQL["find_versions"])
_join = FirstValue[str](_SQL["join"])

model_of = attrgetter("model", "version")
"""What an embedder or a registered version must share with another: then vectors compare."""


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
    has_less_trusted: bool = False
    """Whether the tenant has memories that are less trusted."""

    @property
    def name(self) -> str:
        """The model and version in words."""
        return f"{self.model} {self.version}"


async def register_version(
    tx: Transaction, version_id: UUID, embedder: Embedder, directory: str, now: datetime
) -> UUID:
    """Return the id of the embedder's model; the first of a tenant is in use, others lie aside."""
    model, version = model_of(embedder)
    known = {"model": model, "version": version, "dimensions": embedder.dimensions}
    found = await _register_version(tx, id=version_id, directory=directory, now=now, **known)
    if found is not None:
        return found
    # A racing writer's row is invisible to this statement's snapshot; the next one sees it.
    return await register_version(tx, version_id, embedder, directory, now)


async def find_versions(tx: Transaction) -> list[ModelVersion]:
    """Find every model of this tenant, newest first."""
    return [as_version(row) for row in await _find_versions(tx)]


async def join(tx: Transaction, version_id: UUID) -> VersionState:
    """Load the state of a version and keep it until the transaction ends."""
    return VersionState(await _join(tx, id=version_id) or "")


def as_version(row: Row) -> ModelVersion:
    """Make a version of its row."""
    return ModelVersion(**{**row, "state": VersionState(row["state"])})


_FIRST = UUID(int=0)

_count = OnlyRow(_SQL["count_vectors"])
_WITHOUT = {kind: Rows(_SQL[f"{kind}s_without"]) for kind in MemoryType}
_HOLD = {kind: Rows(_SQL[f"hold_{kind}s"]) for kind in MemoryType}
_KEEP = {kind: Touched(_SQL[f"keep_{kind}s"]) for kind in MemoryType}
_SETTLE = {kind: Touched(_SQL[f"settle_{kind}s"]) for kind in MemoryType}
_DROP = {kind: Touched(_SQL[f"drop_{kind}_vectors"]) for kind in MemoryType}


@dataclass(frozen=True, slots=True)
class Wording:
    """A memory's id and the text its vector is made of, the same as when it was stored."""

    id: UUID
    text: str


@dataclass(frozen=True, slots=True)
class Counts:
    """How many memories there are, and how many have a vector of some version."""

    memories: int
    embedded: int


async def find_without(
    tx: Transaction, kind: MemoryType, version_id: UUID, limit: int, after: UUID = _FIRST
) -> list[Wording]:
    """Find memories without a vector of a version, in id order."""
    rows = await _WITHOUT[kind](tx, version_id=version_id, after=after, limit=limit)
    return [Wording(**row) for row in rows]


async def keep_vectors(
    tx: Transaction,
    kind: MemoryType,
    version_id: UUID,
    made: Sequence[tuple[Wording, list[float]]],
    now: datetime,
) -> int:
    """Store vectors aside for memories that still say what was embedded; return how many."""
    ids = [wording.id for wording, _ in made]
    rows = await _HOLD[kind](tx, ids=ids, texts=[wording.text for wording, _ in made])
    # A bare list of lists would be taken for one array of two dimensions.
    kept = {"held": [row["id"] for row in rows], "vectors": [Vector(vector) for _, vector in made]}
    return await _KEEP[kind](tx, version_id=version_id, ids=ids, now=now, **kept)


async def move_vectors_home(
    tx: Transaction, kind: MemoryType, version_id: UUID, limit: int, *, only_empty: bool
) -> int:
    """Move vectors of a version into the rows of their memories; return how many."""
    return await _SETTLE[kind](tx, version_id=version_id, limit=limit, only_empty=only_empty)


async def drop_vectors(tx: Transaction, version_id: UUID) -> None:
    """Drop the vectors of a version that lie aside."""
    for drop in _DROP.values():
        await drop(tx, version_id=version_id)


async def count_vectors(tx: Transaction, version_id: UUID) -> Counts:
    """Count the memories of the tenant, and those with a vector of a version."""
    return Counts(**await _count(tx, version_id=version_id))


_SAMPLE = {kind: Rows(_SQL[f"sample_{kind}s"]) for kind in MemoryType}


async def sample_vectors(tx: Transaction, kind: MemoryType, word: str, limit: int) -> list[Row]:
    """Load some memories, chosen by a word, with the text and the vector that they have."""
    return await _SAMPLE[kind](tx, word=word, limit=limit)
