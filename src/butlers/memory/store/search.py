"""Looking for memories: by meaning, by words, and how many there are to look through."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.memory.model import MemoryRef, MemoryType

_SQL = load(__file__)
# A whole pasted document asks for its first distinct words; each further one costs a pass.
_MAX_TERMS = 64


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
    rows = await tx.fetch(
        _SQL["nearest_exact"],
        embedding=embedding,
        version_id=version_id,
        limit=limit,
        **_common(tx, where),
    )
    return [_candidate(row, "similarity") for row in rows]


async def nearest_indexed(
    tx: Transaction, embedding: Sequence[float], version_id: UUID, where: Filter, limit: int
) -> list[Candidate]:
    """The nearest memories by the vector indexes; may miss some."""
    rows = await tx.fetch(
        _SQL["nearest_indexed"],
        embedding=embedding,
        version_id=version_id,
        limit=limit,
        **_common(tx, where),
    )
    return [_candidate(row, "similarity") for row in rows]


async def matching(
    tx: Transaction, query: str, where: Filter, limit: int, corpus_size: int
) -> list[Candidate]:
    """The memories that share words with a query, fuller and rarer matches first."""
    rows = await tx.fetch(
        _SQL["matching"],
        query=query,
        limit=limit,
        corpus_size=corpus_size,
        max_terms=_MAX_TERMS,
        **_common(tx, where),
    )
    return [_candidate(row, "rank") for row in rows]


async def count_searched(tx: Transaction, types: Sequence[MemoryType], most: int) -> int:
    """How many rows of these types the tenant has, counted to `most` of each."""
    count: int = await tx.fetch_value(_SQL["corpus_size"], types=types, most=most)
    return count


def _common(tx: Transaction, where: Filter) -> dict[str, object]:
    return {
        "types": list(where.types),
        "scope": where.scope,
        "min_confidence": where.min_confidence,
        "now": where.now,
    }


def _candidate(row: Row, score: str) -> Candidate:
    return Candidate(
        MemoryRef(MemoryType(row["memory_type"]), row["id"]),
        row["created_at"],
        row["importance"],
        row["last_referenced_at"],
        row["confidence"],
        row[score],
    )
