"""The cache: least recently used goes first, everything goes after a while."""

import pytest

from butlers.kernel.lru import LRUCache


class Ticks:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def cache_of(keys: str, max_size: int = 3) -> LRUCache[str]:
    cache: LRUCache[str] = LRUCache(max_size=max_size)
    for key in keys:
        cache.set(key, key.upper())
    return cache


@pytest.mark.contract("K-S8", "K-I5", "K-A5")
def test_at_capacity_the_least_recently_used_goes() -> None:
    cache = cache_of("abcd")
    assert [cache.get(key) for key in "abcd"] == [None, "B", "C", "D"]


@pytest.mark.contract("K-I5")
def test_reading_makes_an_entry_recent() -> None:
    cache = cache_of("abc")
    cache.get("a")
    cache.set("d", "D")
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]


@pytest.mark.contract("K-I5")
def test_writing_again_makes_an_entry_recent_and_evicts_nobody() -> None:
    cache = cache_of("abc")
    cache.set("a", "again")
    assert len(cache) == 3
    cache.set("d", "D")
    assert [cache.get(key) for key in "abcd"] == ["again", None, "C", "D"]


@pytest.mark.contract("K-I6", "K-E7")
def test_an_expired_entry_is_gone_and_dropped_when_read() -> None:
    ticks = Ticks()
    cache: LRUCache[int] = LRUCache(monotonic=ticks)
    cache.set("a", 1)
    ticks.now = 299.9
    assert cache.get("a") == 1
    ticks.now = 300.0
    assert len(cache) == 1
    assert cache.get("a") is None
    assert len(cache) == 0


@pytest.mark.contract("K-A5")
def test_prune_removes_the_expired_alone() -> None:
    ticks = Ticks()
    cache: LRUCache[int] = LRUCache(ttl_ms=1000, monotonic=ticks)
    cache.set("old", 1)
    ticks.now = 0.6
    cache.set("new", 2)
    ticks.now = 1.2
    assert cache.prune() == 1
    assert (cache.get("old"), cache.get("new")) == (None, 2)


@pytest.mark.contract("K-A5")
def test_delete_prefix_and_clear() -> None:
    cache: LRUCache[int] = LRUCache()
    for number, key in enumerate(["a:1", "a:2", "ab:1", "b:1"]):
        cache.set(key, number)
    assert cache.delete("b:1") is True
    assert cache.delete("b:1") is False
    assert cache.invalidate_prefix("a:") == 2
    assert cache.get("ab:1") == 2
    cache.clear()
    assert len(cache) == 0


def test_a_cache_of_no_size_keeps_nothing() -> None:
    assert cache_of("a", max_size=0).get("a") is None
