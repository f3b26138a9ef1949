"""Episodes that consolidation gave up on or a cleanup removed, and their second chance."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from butlers.kernel.json_values import as_json
from butlers.memory.handle import Memory
from butlers.memory.model import (
    ConsolidationStatus,
    Event,
    EventSubject,
    EventType,
    Lineage,
)
from butlers.memory.policy.inputs import checked_id
from butlers.memory.store import bin, consolidation


async def find_dead_letters(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """The tenant's dead letters with their reasons, oldest first."""
    async with memory.transaction(lineage) as tx:
        return [as_json(row) for row in await consolidation.find_dead_letters(tx, limit=limit)]


async def find_binned(memory: Memory, limit: int, lineage: Lineage) -> list[dict[str, Any]]:
    """What the tenant can still have back from the bin, and until when; the latest first."""
    days = timedelta(days=memory.settings.retention.bin_days)
    async with memory.transaction(lineage) as tx:
        rows = await bin.find(tx, limit=limit)
    return [as_json({**row, "until": row["binned_at"] + days}) for row in rows]


async def requeue(
    memory: Memory, episode_ids: Sequence[str | UUID] | None, lineage: Lineage
) -> int:
    """Let these dead letters be tried again, or all of them for None; how many there were.

    An episode that is no dead letter is left as it is and not counted.
    """
    ids = None if episode_ids is None else [checked_id("episode_id", id) for id in episode_ids]
    now = memory.now()
    async with memory.transaction(lineage) as tx:
        requeued = await consolidation.requeue(tx, ids=ids)
        for row in requeued:
            payload = {
                "from": ConsolidationStatus.DEAD_LETTER,
                "to": ConsolidationStatus.PENDING,
                "reason": row["reason"],
                "attempts": row["attempts"],
            }
            event = Event(EventType.EPISODE_REQUEUED, EventSubject.EPISODE, row["id"], payload)
            await memory.record(tx, event, lineage, now)
    return len(requeued)
