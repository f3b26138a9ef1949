"""Searching by meaning, by words and by both."""

import pytest

from butlers.modules.memory.flows import recall, remember
from butlers.modules.memory.flows.recall import Query
from butlers.modules.memory.model import MemoryType, NewEpisode, NewFact, NewRule, SearchMode


async def _store_some(memory, lineage):
    await remember.store_fact(memory, NewFact("Ann", "likes", "green tea"), lineage)
    await remember.store_fact(memory, NewFact("Bob", "drives", "a red car"), lineage)
    await remember.store_rule(memory, NewRule("offer tea to guests"), lineage)
    await remember.store_episode(memory, NewEpisode("Ann bought tea", "general"), lineage)


async def test_smoke(memory, lineage, owner):
    await _store_some(memory, lineage)
    for mode in SearchMode:
        found = await recall.search_memories(memory, Query("tea for Ann"), mode, 10, lineage)
        print(mode, [(f["memory_type"], f["content"], {k: f[k] for k in ("similarity", "rank", "rrf_score") if k in f}) for f in found])
    got = await recall.recall(memory, Query("tea for Ann"), 10, lineage)
    print([recall.as_recalled(g) for g in got])
    assert 0
