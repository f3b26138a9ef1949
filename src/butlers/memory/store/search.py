"""Looking for memories: what may answer a question, and what the answers say.

Each of these is one round trip: the statement itself proves whom it acts for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np

from butlers.db.postgres import Database, Row
from butlers.db.queries import load
from butlers.db.statements import Touched
from butlers.memory.candidates import CandidateColumns, Header, Numbers
from butlers.memory.model import NOW, MemoryRef, MemoryType, Then, VersionState
from butlers.memory.store.embeddings import ModelVersion, as_version

_SQL = load(__file__)

count_uses = Touched(_SQL["count_uses"])

_LISTS = (
    *("kinds", "ids", "said_at", "session_ids", "places", "authors"),
    *("near_places", "word_places"),
)
_NUMBERS = ("lengths", "similarities", "bare_similarities")
_FLOATS = frozenset(
    {
        "importance",
        "confidence",
        "decay_rate",
        "effectiveness_score",
        "effective_confidence",
        "confidence_floor",
    }
)


@dataclass(frozen=True, slots=True)
class Filter:
    """What may be found; applied before anything is ranked or cut."""

    types: tuple[MemoryType, ...]
    scope: str | None
    min_confidence: float
    now: datetime
    as_of: datetime | None = None
    """When it must hold in the world; None is now."""
    known_at: datetime | None = None
    """When it must have been believed; None is now."""
    low: bool = False
    """Whether among memories of low trust; else among all others, as if there were only these."""


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """A question as it is looked up: its words and its vector, with and without the names in it.

    Without a vector it is looked for by words, without words by meaning. `neighbours` is how many
    the vector index compares it with at least.
    """

    version_id: UUID | None
    names_known: int
    total_known: int
    asked: str = ""
    near: Sequence[float] | None = None
    bare: str | None = None
    near_bare: Sequence[float] | None = None
    neighbours: int = 500


@dataclass(frozen=True, slots=True)
class Limits:
    """How many candidates each search returns, and up to how many memories all are compared."""

    depth: int
    read_whole: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """What was found of a question before its candidates are asked for, each leg by itself."""

    known: str | None = None
    matching: list[int] | None = None
    docs: list[int] | None = None
    distances: list[float] | None = None
    bare_docs: list[int] | None = None


NOTHING_AHEAD = Ahead()


@dataclass(frozen=True, slots=True)
class TenantProfile:
    """What may be remembered of a tenant: the models it knows, newest first, and its names.

    How many memories it has matters no more than roughly, and is not asked anew when it changes.
    """

    versions: tuple[ModelVersion, ...]
    names: frozenset[str]
    memories: int = field(compare=False)
    called: Mapping[str, str] = field(default_factory=dict)
    """What somebody is called now, by each of their other names in small letters."""

    @property
    def current_id(self) -> UUID | None:
        """The version in use; none before the first vector."""
        current = (one.id for one in self.versions if one.state is VersionState.CURRENT)
        return next(current, None)


async def find_candidates(
    database: Database,
    tenant_id: str,
    query: IndexQuery,
    where: Filter,
    limits: Limits,
    ahead: Ahead = NOTHING_AHEAD,
) -> CandidateColumns:
    """The best by meaning and by words, each to the same depth, with what ranks them.

    Tenants of up to `read_whole` memories are read whole; larger ones by index, if it finds enough.
    Memories of low trust are never among the others: what they say changes no rank of these.
    """
    parts = (query, where, limits, ahead)
    values = {name: getattr(part, name) for part in parts for name in part.__slots__}
    [row] = await database.fetch_as(tenant_id, _SQL["find_candidates"], **values)
    columns: dict[str, Any] = {name: row[name] or [] for name in _LISTS}
    columns |= {name: np.array(row[name] or [], dtype=np.float64) for name in _NUMBERS}
    weights = np.array(row["weights"], dtype=np.float64)
    bare = row["bare_words"] or row["words"]
    header = Header(
        row["stale"], row["words"], bare, row["counts"], weights, row["total"], row["has_low"]
    )
    return CandidateColumns(header=header, impacts=_impacts(row), **columns)


async def prefetch_matching(
    database: Database, tenant_id: str, words: str, total_known: int, depth: int
) -> Row:
    """The best by words of a tenant that is searched by index: the half of `Ahead` they are."""
    values = {"asked": words, "total_known": total_known, "depth": depth}
    [row] = await database.fetch_as(tenant_id, _SQL["prefetch_matching"], **values)
    return row


async def prefetch_nearest(
    database: Database, tenant_id: str, asked: IndexQuery, depth: int
) -> Row:
    """The best by meaning of a tenant that is searched by index: the other half."""
    names = ("version_id", "near", "near_bare", "neighbours")
    values = {name: getattr(asked, name) for name in names}
    [row] = await database.fetch_as(tenant_id, _SQL["prefetch_nearest"], **values, depth=depth)
    return row


async def load_memories(
    database: Database,
    tenant_id: str,
    refs: Sequence[MemoryRef],
    now: datetime,
    then: Then = NOW,
) -> dict[MemoryRef, Row]:
    """What there is under these, as their readers get it; asked of a time, as it was then."""
    asked = {"types": [ref.type for ref in refs], "ids": [ref.id for ref in refs], "now": now}
    times = {"as_of": then.as_of, "known_at": then.known_at}
    rows = await database.fetch_as(tenant_id, _SQL["load_memories"], **asked, **times)
    return {
        MemoryRef(MemoryType(row["memory_type"]), row["id"]): _revived(row["memory"])
        for row in rows
    }


async def load_tenant_profile(database: Database, tenant_id: str) -> TenantProfile:
    """The models a tenant knows and the names of its people, as they are now."""
    [row] = await database.fetch_as(tenant_id, _SQL["load_tenant_profile"])
    versions = tuple(as_version(_revived(version)) for version in row["versions"])
    return TenantProfile(versions, frozenset(row["names"]), row["memories"], row["called"])


def _impacts(row: Row) -> Numbers:
    """Word by candidate; of several words that stand in for one, the one that says most."""
    candidates = {doc: number for number, doc in enumerate(row["docs"] or [])}
    impacts = np.zeros((len(row["words"]), len(candidates)))
    words = np.array(row["hit_words"] or [], dtype=np.intp) - 1
    hit = np.array([candidates[doc] for doc in row["hit_docs"] or []], dtype=np.intp)
    np.maximum.at(impacts, (words, hit), row["hit_impacts"] or [])
    return impacts


def _revived(told: Mapping[str, Any]) -> dict[str, Any]:
    """A row that came as JSON with its instants, ids and floats as the driver would give them."""
    row = dict(told)
    for name, value in told.items():
        if value is None:
            continue
        if name.endswith("_at") or name in ("valid_from", "valid_to"):
            row[name] = datetime.fromisoformat(value)
        elif name == "id" or (name.endswith("_id") and name != "tenant_id"):
            row[name] = UUID(value)
        elif name in _FLOATS:
            row[name] = float(value)
    return row
