"""The inbox: everything that waits for a person's decision, the longest waiting first."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from butlers.db.postgres import Transaction
from butlers.kernel.json_values import EXCERPT
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.store import inbox


class WaitingKind(StrEnum):
    """What may wait for a person; `policy/inbox.toml` says what can be decided."""

    QUARANTINED = "quarantined"
    PROPOSAL = "proposal"
    CONFLICT = "conflict"
    DUPLICATE = "duplicate"
    IN_DOUBT = "in_doubt"
    REPORTED_HARMFUL = "reported_harmful"
    SESSION = "session"


async def find_waiting(
    memory: Memory, limit: int, kind: str | None, lineage: Lineage
) -> list[dict[str, Any]]:
    """List what waits, of one kind if named; only a person gets quarantined texts."""
    async with memory.transaction(lineage) as tx:
        rows = await inbox.find(tx, limit=limit, kind=kind, now=memory.now(), excerpt=EXCERPT)
    hidden = {} if lineage.origin.is_person else dict.fromkeys(("subject", "predicate", "content"))
    return [{**row, **(hidden if row["kind"] == WaitingKind.QUARANTINED else {})} for row in rows]


async def count_waiting(memory: Memory, lineage: Lineage) -> dict[str, int]:
    """Count what waits for a person by kind; kinds of which nothing waits are left out."""
    async with memory.transaction(lineage) as tx:
        return await count_waiting_in(memory, tx)


async def count_waiting_in(memory: Memory, tx: Transaction) -> dict[str, int]:
    """Count what waits for a person, within a transaction."""
    rows = await inbox.count(tx, now=memory.now(), excerpt=0)
    return {row["kind"]: row["number"] for row in rows}


def in_words(counts: Mapping[str, int]) -> str:
    """Say how many of each kind wait."""
    return ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in counts.items())
