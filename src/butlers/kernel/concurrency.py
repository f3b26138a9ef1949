"""Limit how many calls of one kind run at once; first come, first served."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Slots:
    free: asyncio.Semaphore
    present: int = 0


class ConcurrencyLimiter:
    """Slots for each kind; a kind is forgotten once nobody uses or waits for its slots.

    A butler has two for the readers and two for the writers of each tenant.
    """

    def __init__(self, at_once: int = 2) -> None:
        self._at_once = at_once
        self._known: dict[Hashable, _Slots] = {}

    @asynccontextmanager
    async def of(self, kind: Hashable) -> AsyncIterator[None]:
        """Hold a slot of a kind for the block; wait for a free one."""
        slots = self._known.setdefault(kind, _Slots(asyncio.Semaphore(self._at_once)))
        slots.present += 1
        try:
            async with slots.free:
                yield
        finally:
            slots.present -= 1
            if not slots.present:
                del self._known[kind]
