"""Looking for memories: what may answer a question, and what the answers say.

Each of these is one round trip: the function it calls names the tenant itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Database, Row
from butlers.db.queries import load
from butlers.memory.candidates import Candidate, Header, Looked
from butlers.memory.model import MemoryRef, MemoryType, VersionState
from butlers.memory.store.embeddings import ModelVersion, as_version

_SQL = load(__file__)
_FLOATS = frozenset(
    {"importance", "confidence", "decay_rate", "effectiveness_score", "effective_confidence"}
)


@dataclass(frozen=True, slots=True)
class Filter:
    """What may be found; applied before anything is ranked or cut."""

    types: tuple[MemoryType, ...]
    scope: str | None
    min_confidence: float
    now: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it is looked up: its words and its vector, with and without the names in it.

    Without a vector it is looked for by words, without words by meaning.
    """

    version_id: UUID | None
    names_known: int
    total_known: int
    asked: str = ""
    near: Sequence[float] | None = None
    bare: str | None = None
    near_bare: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What may be remembered of a tenant: the models it knows, newest first, and its names.

    How many memories it has matters no more than roughly, and is not asked anew when it changes.
    """

    versions: tuple[ModelVersion, ...]
    names: frozenset[str]
    memories: int = field(compare=False)

    @property
    def current_id(self) -> UUID | None:
        """The version in use; none before the first vector."""
        current = (one.id for one in self.versions if one.state is VersionState.CURRENT)
        return next(current, None)


async def find_candidates(
    database: Database, tenant_id: str, asked: Asked, where: Filter, depth: int, read_whole: int
) -> Looked:
    """The best by meaning and by words, each to the same depth, with what ranks them.

    Tenants of up to `read_whole` memories are read whole; larger ones by index, if it finds enough.
    """
    limits = {"depth": depth, "read_whole": read_whole}
    about, *found = await database.fetch_as(
        tenant_id, _SQL["find_candidates"], **asdict(asked), **asdict(where), **limits
    )
    words, counts = about["words"] or [], about["counts"] or []
    header = Header(about["stale"], words, about["bare_words"] or words, counts, about["total"])
    return Looked(header, [_candidate(row) for row in found])


async def tell_memories(
    database: Database, tenant_id: str, refs: Sequence[MemoryRef], now: datetime
) -> dict[MemoryRef, Row]:
    """What there is under these, as their readers get it."""
    asked = {"types": [ref.type for ref in refs], "ids": [ref.id for ref in refs], "now": now}
    rows = await database.fetch_as(tenant_id, _SQL["tell_memories"], **asked)
    return {
        MemoryRef(MemoryType(row["memory_type"]), row["id"]): _revived(row["told"]) for row in rows
    }


async def tenant_standing(database: Database, tenant_id: str) -> Standing:
    """The models a tenant knows and the names of its people, as they are now."""
    [row] = await database.fetch_as(tenant_id, _SQL["tenant_standing"])
    versions = tuple(as_version(_revived(version)) for version in row["versions"])
    return Standing(versions, frozenset(row["names"]), row["memories"])


def _candidate(row: Row) -> Candidate:
    ref = MemoryRef(MemoryType(row["memory_type"]), row["id"])
    return Candidate(ref, *(row[name] for name in Candidate.__slots__[1:]))


def _revived(told: Mapping[str, Any]) -> dict[str, Any]:
    """A row that came as JSON with its instants, ids and floats as the driver would give them."""
    return {name: _value(name, value) for name, value in told.items()}


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name.endswith("_at"):
        return datetime.fromisoformat(value)
    if name == "id" or (name.endswith("_id") and name != "tenant_id"):
        return UUID(value)
    return float(value) if name in _FLOATS else value
