"""Limit callers: how often they may call, and how many calls run at once."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

_MOST_KNOWN = 10_000


class RateLimiter:
    """A token bucket for each name."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._per_second = per_minute / 60
        self._known: dict[str, tuple[float, float]] = {}

    def take(self, name: str, now: float) -> float:
        """Take one token; return 0.0, or the seconds until there is one."""
        left, at = self._known.get(name, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_second)
        if left < 1:
            return (1 - left) / self._per_second
        if len(self._known) >= _MOST_KNOWN:
            self._forget_full(now)
        self._known[name] = (left - 1, now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        """Drop buckets that are full again; they are like new ones."""
        self._known = {name: b for name, b in self._known.items() if now - b[1] < 60}


@dataclass(slots=True)
class _Slots:
    free: asyncio.Semaphore
    present: int = 0


class ConcurrencyLimiter:
    """A few slots for each kind of call, such as the reads of one tenant."""

    def __init__(self, at_once: int = 2) -> None:
        self._at_once = at_once
        self._known: dict[Hashable, _Slots] = {}

    @asynccontextmanager
    async def of(self, kind: Hashable) -> AsyncIterator[None]:
        """Hold a slot of a kind for the block; wait until one is free."""
        slots = self._known.setdefault(kind, _Slots(asyncio.Semaphore(self._at_once)))
        slots.present += 1
        try:
            async with slots.free:
                yield
        finally:
            slots.present -= 1
            if not slots.present:
                del self._known[kind]
