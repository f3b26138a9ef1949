"""Links between memories."""

from datetime import datetime
from typing import Any

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstValue, Rows, Touched
from butlers.memory.model import Direction, Link, MemoryRef

_SQL = load(__file__)

find_doubted = Rows(_SQL["find_doubted"])
find_fallen = Rows(_SQL["find_fallen"])
find_grounds = Rows(_SQL["find_grounds"])
depends_on = FirstValue[bool](_SQL["depends_on"])
unlink = Rows(_SQL["unlink"])

supersede = Touched(_SQL["supersede"])
keep_sources = Touched(_SQL["keep_sources"])
find_sources = Rows(_SQL["find_sources"])

_insert = Touched(_SQL["insert"])
_get_relation = FirstValue[str](_SQL["get_relation"])
_find = Rows(_SQL["find"])


async def insert(tx: Transaction, link: Link, now: datetime) -> bool:
    """Add a link; false when it was there already."""
    return await _insert(tx, **ends(link), now=now) == 1


def ends(link: Link) -> dict[str, Any]:
    """Return the columns of a link."""
    return {
        "source_type": link.source.type,
        "source_id": link.source.id,
        "target_type": link.target.type,
        "target_id": link.target.id,
        "relation": link.relation,
    }


async def get_relation(tx: Transaction, link: Link) -> str | None:
    """Load how two memories are linked; None where they are not."""
    both = ends(link)
    del both["relation"]
    return await _get_relation(tx, **both)


async def find(tx: Transaction, memory: MemoryRef, direction: Direction) -> list[Row]:
    """Find the links of one memory in the wanted directions, oldest first."""
    return await _find(
        tx,
        memory_type=memory.type,
        memory_id=memory.id,
        outgoing=direction is not Direction.INCOMING,
        incoming=direction is not Direction.OUTGOING,
    )
