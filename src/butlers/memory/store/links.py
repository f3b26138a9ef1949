"""Links between memories."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.db.statements import Rows, Touched
from butlers.memory.model import Direction, Link, MemoryRef, MemoryType, Relation

_SQL = load(__file__)

supersede = Touched(_SQL["supersede"])
keep_sources = Touched(_SQL["keep_sources"])

_insert = Touched(_SQL["insert"])
_find = Rows(_SQL["find"])


async def insert(tx: Transaction, link: Link, now: datetime) -> bool:
    """Add a link; false when it was there already."""
    added = await _insert(
        tx,
        source_type=link.source.type,
        source_id=link.source.id,
        target_type=link.target.type,
        target_ids=[link.target.id],
        relation=link.relation,
        now=now,
    )
    return added == 1


async def derive(
    tx: Transaction, memory: MemoryRef, episode_ids: Sequence[UUID], now: datetime
) -> None:
    """Link a memory to the episodes it comes from."""
    await _insert(
        tx,
        source_type=memory.type,
        source_id=memory.id,
        target_type=MemoryType.EPISODE,
        target_ids=episode_ids,
        relation=Relation.DERIVED_FROM,
        now=now,
    )


async def find(tx: Transaction, memory: MemoryRef, direction: Direction) -> list[Row]:
    """The links of one memory in the wanted directions, oldest first."""
    return await _find(
        tx,
        memory_type=memory.type,
        memory_id=memory.id,
        outgoing=direction is not Direction.INCOMING,
        incoming=direction is not Direction.OUTGOING,
    )
