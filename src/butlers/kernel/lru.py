"""A bounded cache that forgets the least recently used entry, and every entry after a while."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

DEFAULT_MAX_SIZE = 500
DEFAULT_TTL_MS = 300_000


class LRUCache(Generic[T]):
    """At most `max_size` entries, each served for `ttl_ms`; not safe to share between threads."""

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
        """The value while it lives, now the most recently used; an expired one is dropped."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._monotonic() >= entry[0]:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def set(self, key: str, value: T) -> None:
        """Keep the value for a full lifetime; at capacity the least recently used entry goes."""
        self._entries[key] = (self._monotonic() + self._ttl_seconds, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._max_size:
            self._entries.popitem(last=False)

    def delete(self, key: str) -> bool:
        """Whether there was such an entry; it is gone."""
        return self._entries.pop(key, None) is not None

    def invalidate_prefix(self, prefix: str) -> int:
        """How many entries had a key with this prefix; they are gone."""
        return self._drop([key for key in self._entries if key.startswith(prefix)])

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def prune(self) -> int:
        """How many entries had expired; they are gone."""
        now = self._monotonic()
        return self._drop([key for key, (expires, _) in self._entries.items() if now >= expires])

    def _drop(self, keys: list[str]) -> int:
        for key in keys:
            del self._entries[key]
        return len(keys)
