"""How much was remembered over time, and in which state."""

from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.policy import inputs
from butlers.memory.policy.timeline import Timeline, days_until, timeline
from butlers.memory.store import events

MAX_DAYS = 366


async def memory_timeline(memory: Memory, days: int, lineage: Lineage) -> Timeline:
    """Counts for each of the last days, today included; by the audit stream, in UTC."""
    inputs.checked_limit(days, MAX_DAYS)
    shown = days_until(memory.now().date(), days + 1)
    async with memory.transaction(lineage) as tx:
        moves = await events.find_moves(tx, first_day=shown[0], last_day=shown[-1])
    return timeline(shown, moves)
