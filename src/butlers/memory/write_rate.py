"""Rate limit of writes: what one token stores beyond it is quarantined."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from butlers.kernel.lru import LRUCache
from butlers.memory.trust import Lineage, Origin

FLOOD = "a flood from one source"

_MINUTE = timedelta(minutes=1)
_SOURCES, _LIVE_MS = 4_096, 600_000


@dataclass(slots=True)
class WriteRate:
    """What each token stored within the last minute, in this process."""

    _stored: LRUCache[deque[datetime]] = field(default_factory=lambda: LRUCache(_SOURCES, _LIVE_MS))

    def is_flood(self, lineage: Lineage, most: int, now: datetime) -> bool:
        """Count a write; return whether its token exceeds `most` a minute. Only tokens count."""
        if not most or lineage.origin is not Origin.AGENT or not lineage.actor.startswith("token:"):
            return False
        name = f"{lineage.tenant_id}\x1f{lineage.actor}"
        stored = self._stored.get(name) or deque()
        while stored and now - stored[0] >= _MINUTE:
            stored.popleft()
        stored.append(now)
        self._stored.set(name, stored)
        return len(stored) > most
