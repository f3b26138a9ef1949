"""Looking for memories: by meaning, by words, and how many there are to look through."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.db.statements import OnlyValue, Rows
from butlers.memory.model import MemoryRef, MemoryType

_SQL = load(__file__)
# A whole pasted document asks for its first distinct words; each further one costs a pass.
_MAX_TERMS = 64

corpus_size = OnlyValue[int](_SQL["corpus_size"])

_nearest_exact = Rows(_SQL["nearest_exact"])
_nearest_indexed = Rows(_SQL["nearest_indexed"])
_matching = Rows(_SQL["matching"])


@dataclass(frozen=True, slots=True)
class Filter:
    """What may be found; applied before anything is ranked or cut."""

    types: tuple[MemoryType, ...]
    scope: str | None
    min_confidence: float
    now: datetime


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that a search found, with what is needed to score it."""

    ref: MemoryRef
    created_at: datetime
    importance: float
    last_referenced_at: datetime | None
    confidence: float
    score: float


async def nearest(
    tx: Transaction, embedding: Sequence[float], version_id: UUID, where: Filter, limit: int
) -> list[Candidate]:
    """The nearest memories, every vector of the tenant read."""
    asked = {"embedding": embedding, "version_id": version_id, "limit": limit}
    return _candidates(await _nearest_exact(tx, **asked, **asdict(where)), "similarity")


async def nearest_indexed(
    tx: Transaction, embedding: Sequence[float], version_id: UUID, where: Filter, limit: int
) -> list[Candidate]:
    """The nearest memories by the vector indexes; may miss some."""
    asked = {"embedding": embedding, "version_id": version_id, "limit": limit}
    return _candidates(await _nearest_indexed(tx, **asked, **asdict(where)), "similarity")


async def matching(
    tx: Transaction, query: str, where: Filter, limit: int, corpus_size: int
) -> list[Candidate]:
    """The memories that share words with a query, fuller and rarer matches first."""
    asked = {"query": query, "limit": limit, "corpus_size": corpus_size, "max_terms": _MAX_TERMS}
    return _candidates(await _matching(tx, **asked, **asdict(where)), "rank")


def _candidates(rows: Sequence[Row], score: str) -> list[Candidate]:
    return [
        Candidate(
            MemoryRef(MemoryType(row["memory_type"]), row["id"]),
            row["created_at"],
            row["importance"],
            row["last_referenced_at"],
            row["confidence"],
            row[score],
        )
        for row in rows
    ]
