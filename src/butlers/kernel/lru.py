"""A bounded cache with expiry that drops the least recently used entry first."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

DEFAULT_MAX_SIZE = 500
DEFAULT_TTL_MS = 300_000


class LRUCache(Generic[T]):
    """Holds at most `max_size` entries, each for `ttl_ms`; not safe to share between threads."""

    def __init__(
        self,
        max_size: int = DEFAULT_MAX_SIZE,
        ttl_ms: float = DEFAULT_TTL_MS,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_size = max_size
        self._ttl_seconds = ttl_ms / 1000
        self._monotonic = monotonic
        self._entries: OrderedDict[str, tuple[float, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> T | None:
        """Return a value and mark it as used; None if there is none or it has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._monotonic() >= entry[0]:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def set(self, key: str, value: T) -> None:
        """Store a value; at capacity the least recently used entry is dropped."""
        self._entries[key] = (self._monotonic() + self._ttl_seconds, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._max_size:
            self._entries.popitem(last=False)

    def delete(self, key: str) -> bool:
        """Delete an entry; return whether there was one."""
        return self._entries.pop(key, None) is not None

    def invalidate_prefix(self, prefix: str) -> int:
        """Delete the entries whose key has this prefix; return how many."""
        return self._drop([key for key in self._entries if key.startswith(prefix)])

    def clear(self) -> None:
        """Delete every entry."""
        self._entries.clear()

    def prune(self) -> int:
        """Delete the expired entries; return how many."""
        now = self._monotonic()
        return self._drop([key for key, (expires, _) in self._entries.items() if now >= expires])

    def _drop(self, keys: list[str]) -> int:
        for key in keys:
            del self._entries[key]
        return len(keys)
