"""Removing episodes that have expired or are too many."""

from dataclasses import dataclass

from butlers.modules.memory.memory import Memory
from butlers.modules.memory.model import Lineage


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What a cleanup did."""

    expired_deleted: int
    capacity_deleted: int
    remaining: int


async def run_episode_cleanup(
    memory: Memory, lineage: Lineage, max_entries: int | None = None
) -> CleanupReport:
    """Remove expired episodes, then the oldest consolidated ones beyond the capacity."""
    raise NotImplementedError
