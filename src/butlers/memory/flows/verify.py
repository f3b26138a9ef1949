"""Whether the audit stream is what was told: every event there, unchanged, and none added."""

from typing import Any

from butlers.db.postgres import Transaction
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.store import event_chain

MOST_FAULTS = 20
# A stretch takes about a second, so that no statement of a long story runs out of time.
STRETCH = 10_000
_NOWHERE = {"number": None, "event_id": None, "at": None}


async def verify_events(
    memory: Memory, lineage: Lineage, since_head: str | None = None
) -> dict[str, Any]:
    """What is wrong with a tenant's events, the first faults of them named; and its head now.

    Whoever noted a head elsewhere learns whether the story that it ended still stands.
    """
    told: dict[str, Any] = {"events": 0, "erased": 0, "faulty": 0, "faults": []}
    async with memory.transaction(lineage) as tx:
        head = await event_chain.get_head(tx)
        last = head["number"] if head else 0
        noted = await event_chain.get_number(tx, head=since_head) if since_head else None
        if since_head and noted is None:
            _add(told, 1, [{"fault": "head", **_NOWHERE}])
        await _walk(tx, last, told)
        added = await event_chain.find_unchained(tx, most=MOST_FAULTS)
    _add(told, added[0]["faulty"] if added else 0, [_added(row) for row in added])
    told["faults"] = told["faults"][:MOST_FAULTS]
    told |= {"intact": not told["faulty"], "head": head["head"] if head else None}
    return told | {"since_head": None if noted is None else last - noted}


async def _walk(tx: Transaction, last: int, told: dict[str, Any]) -> None:
    """Look at every place of the chain up to the last, a stretch at a time."""
    for after in range(0, last, STRETCH):
        row = await event_chain.verify(tx, after=after, limit=STRETCH, most=MOST_FAULTS)
        told["events"] += row["events"]
        told["erased"] += row["erased"]
        _add(told, row["faulty"], row["faults"])


def _add(told: dict[str, Any], faulty: int, faults: list[dict[str, Any]]) -> None:
    told["faulty"] += faulty
    told["faults"] += faults


def _added(row: Any) -> dict[str, Any]:
    return {"fault": "added", "number": None, "event_id": row["event_id"], "at": row["at"]}
