"""Memories in doubt: they depend on something that is no longer current."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.kernel.json_values import EXCERPT, as_json
from butlers.memory.flows.authority import refuse_more_trusted
from butlers.memory.flows.links import link_event
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import NOW, EventType, Lineage, MemoryRef, Then
from butlers.memory.policy.trust import excerpt_of
from butlers.memory.store import links

_FALLEN = 20
"""The number of memories in doubt that a result names; the listing names all."""


async def find_in_doubt(work: UnitOfWork, refs: Sequence[MemoryRef]) -> list[dict[str, Any]]:
    """Return excerpts of the memories in doubt that depend on some memories."""
    if not refs:
        return []
    named = {"types": [ref.type for ref in refs], "ids": [ref.id for ref in refs]}
    rows = await links.find_fallen(work.tx, **named, now=work.now, limit=_FALLEN, excerpt=EXCERPT)
    return [excerpt_of(row) for row in rows]


async def list_doubts(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """List memories in doubt, newest first, each with what it depends on that is not current."""
    async with memory.transaction(lineage) as tx:
        rows = await links.find_doubted(tx, now=memory.now(), limit=limit, excerpt=EXCERPT)
        grounds = await grounds_in(tx, {id for row in rows for id in row["in_doubt"]}, memory.now())
    return [as_json({**row, "because": [grounds[id] for id in row["in_doubt"]]}) for row in rows]


async def grounds_in(
    tx: Transaction, ids: set[UUID], now: datetime, then: Then = NOW
) -> Mapping[UUID, Mapping[str, Any]]:
    """Load what memories depend on, and its state; of a deleted one only the id."""
    wanted = {"ids": list(ids), "excerpt": EXCERPT, "now": now, **asdict(then)}
    gone = {id: dict[str, Any](id=id, state="gone", stands=False) for id in ids}
    return gone | {row["id"]: dict(row) for row in await links.find_grounds(tx, **wanted)}


async def clear_doubt(memory: Memory, ref: MemoryRef, lineage: Lineage) -> bool:
    """Unlink a memory from what is no longer current; false if it was not in doubt.

    Refuses a memory that the caller may not change. Records `link_removed` for each link.
    """
    now = memory.now()
    async with memory.begin(lineage) as work:
        await refuse_more_trusted(work, ref, "settle")
        removed = await links.unlink(work.tx, kind=ref.type, id=ref.id, now=now)
        for row in removed:
            await work.record(link_event(EventType.LINK_REMOVED, row), now)
    return bool(removed)
