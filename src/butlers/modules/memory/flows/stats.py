"""How much is remembered, and in which state."""

from typing import Any

from butlers.modules.memory.memory import Memory
from butlers.modules.memory.model import Lineage
from butlers.modules.memory.policy import inputs
from butlers.modules.memory.store import stats


async def memory_stats(memory: Memory, scope: str | None, lineage: Lineage) -> dict[str, Any]:
    """Counts by kind and state; a scope counts its own facts and rules and the global ones.

    `episodes.backlog_age_hours` is None when nothing waits. A forgotten rule counts as such alone.
    """
    if scope is not None:
        scope = inputs.checked_line("scope", scope, inputs.MAX_SCOPE)
    async with memory.transaction(lineage) as tx:
        return dict(await stats.count(tx, scope, memory.now()))


async def memory_overview(memory: Memory, lineage: Lineage) -> dict[str, Any]:
    """All counts, and when something was last consolidated: what a fleet shows of one butler."""
    async with memory.transaction(lineage) as tx:
        counted = dict(await stats.count(tx, None, memory.now()))
        last = await stats.last_consolidated_at(tx)
    return {**counted, "last_consolidated_at": last.isoformat() if last else None}
