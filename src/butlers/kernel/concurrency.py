"""Turns: so many of one kind at once, first come first served; other kinds do not wait."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Slots:
    free: asyncio.Semaphore
    present: int = 0


class Turns:
    """Places by kind, known while somebody has one or waits for one."""

    def __init__(self, at_once: int = 2) -> None:
        self._at_once = at_once
        self._known: dict[Hashable, _Slots] = {}

    @asynccontextmanager
    async def of(self, kind: Hashable) -> AsyncIterator[None]:
        """Within this block one of the places is ours."""
        places = self._known.setdefault(kind, _Slots(asyncio.Semaphore(self._at_once)))
        places.present += 1
        try:
            async with places.free:
                yield
        finally:
            places.present -= 1
            if not places.present:
                del self._known[kind]
