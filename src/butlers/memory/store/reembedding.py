"""Vectors of another model: kept aside, brought home, dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pgvector import Vector

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.memory.model import MemoryType, NewEpisode, NewFact, NewRule

_SQL = load(__file__)
_FIRST = UUID(int=0)

_WITHOUT = {
    MemoryType.EPISODE: _SQL["episodes_without"],
    MemoryType.FACT: _SQL["facts_without"],
    MemoryType.RULE: _SQL["rules_without"],
}
_KEEP = {
    MemoryType.EPISODE: _SQL["keep_episodes"],
    MemoryType.FACT: _SQL["keep_facts"],
    MemoryType.RULE: _SQL["keep_rules"],
}
_SETTLE = {
    MemoryType.EPISODE: _SQL["settle_episodes"],
    MemoryType.FACT: _SQL["settle_facts"],
    MemoryType.RULE: _SQL["settle_rules"],
}
_DROP = (_SQL["drop_episodes"], _SQL["drop_facts"], _SQL["drop_rules"])


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
    """Memories that have no vector of a version, in id order."""
    rows = await tx.fetch(_WITHOUT[kind], version_id=version_id, after=after, limit=limit)
    return [Wording(row["id"], _text(kind, row)) for row in rows]


async def keep(
    tx: Transaction,
    kind: MemoryType,
    version_id: UUID,
    made: Sequence[tuple[Wording, list[float]]],
    now: datetime,
) -> int:
    """Lay vectors aside for the memories that still say what was embedded; how many."""
    return await tx.execute(
        _KEEP[kind],
        version_id=version_id,
        ids=[wording.id for wording, _ in made],
        texts=[wording.text for wording, _ in made],
        # A bare list of lists would be taken for one array of two dimensions.
        vectors=[Vector(vector) for _, vector in made],
        now=now,
    )


async def settle(tx: Transaction, kind: MemoryType, version_id: UUID, limit: int) -> int:
    """Bring vectors of a version home into the rows of their memories; how many."""
    return await tx.execute(_SETTLE[kind], version_id=version_id, limit=limit)


async def drop(tx: Transaction, version_id: UUID) -> int:
    """Drop the vectors aside of a version; how many there were."""
    dropped = [await tx.execute(statement, version_id=version_id) for statement in _DROP]
    return sum(dropped)


async def count(tx: Transaction, version_id: UUID) -> Counts:
    """How many memories the tenant has, and how many have a vector of a version."""
    row = await tx.fetch_one(_SQL["counts"], version_id=version_id)
    assert row is not None, "a count always has a row"
    return Counts(row["memories"], row["embedded"])


def _text(kind: MemoryType, row: Row) -> str:
    if kind is MemoryType.FACT:
        return NewFact(row["subject"], row["predicate"], row["content"]).searchable_text
    if kind is MemoryType.EPISODE:
        return NewEpisode(row["content"], "").searchable_text
    return NewRule(row["content"]).searchable_text
