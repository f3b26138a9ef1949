"""Vectors of another model: kept aside, brought home, dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pgvector import Vector

from butlers.db.postgres import Transaction
from butlers.db.queries import load
from butlers.db.statements import OnlyRow, OnlyValue, Rows, Touched
from butlers.memory.model import MemoryType

_SQL = load(__file__)
_FIRST = UUID(int=0)

drop = OnlyValue[int](_SQL["drop"])

_count = OnlyRow(_SQL["count"])
_WITHOUT = {
    MemoryType.EPISODE: Rows(_SQL["episodes_without"]),
    MemoryType.FACT: Rows(_SQL["facts_without"]),
    MemoryType.RULE: Rows(_SQL["rules_without"]),
}
_HOLD = {
    MemoryType.EPISODE: Rows(_SQL["hold_episodes"]),
    MemoryType.FACT: Rows(_SQL["hold_facts"]),
    MemoryType.RULE: Rows(_SQL["hold_rules"]),
}
_KEEP = {
    MemoryType.EPISODE: Touched(_SQL["keep_episodes"]),
    MemoryType.FACT: Touched(_SQL["keep_facts"]),
    MemoryType.RULE: Touched(_SQL["keep_rules"]),
}
_SETTLE = {
    MemoryType.EPISODE: Touched(_SQL["settle_episodes"]),
    MemoryType.FACT: Touched(_SQL["settle_facts"]),
    MemoryType.RULE: Touched(_SQL["settle_rules"]),
}


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
    rows = await _WITHOUT[kind](tx, version_id=version_id, after=after, limit=limit)
    return [Wording(**row) for row in rows]


async def keep(
    tx: Transaction,
    kind: MemoryType,
    version_id: UUID,
    made: Sequence[tuple[Wording, list[float]]],
    now: datetime,
) -> int:
    """Lay vectors aside for the memories that still say what was embedded; how many."""
    ids = [wording.id for wording, _ in made]
    held = await _HOLD[kind](tx, ids=ids, texts=[wording.text for wording, _ in made])
    return await _KEEP[kind](
        tx,
        version_id=version_id,
        ids=ids,
        held=[row["id"] for row in held],
        # A bare list of lists would be taken for one array of two dimensions.
        vectors=[Vector(vector) for _, vector in made],
        now=now,
    )


async def settle(tx: Transaction, kind: MemoryType, version_id: UUID, limit: int) -> int:
    """Bring vectors of a version home into the rows of their memories; how many."""
    return await _SETTLE[kind](tx, version_id=version_id, limit=limit)


async def count(tx: Transaction, version_id: UUID) -> Counts:
    """How many memories the tenant has, and how many have a vector of a version."""
    return Counts(**await _count(tx, version_id=version_id))
