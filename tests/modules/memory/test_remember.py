"""Storing episodes, facts and rules."""

import asyncio

import pytest

from butlers.modules.memory.flows import remember
from butlers.modules.memory.model import NewEpisode, NewFact, NewRule


@pytest.mark.contract("R05.2")
async def test_a_fact_under_a_taken_key_supersedes(memory, lineage, owner):
    first = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    second = await remember.store_fact(memory, NewFact("Ann", "likes", "coffee"), lineage)
    assert second.superseded_id == first.id
    rows = await owner.fetch("select id, validity, supersedes_id from facts order by id")
    assert [(r["id"], r["validity"], r["supersedes_id"]) for r in rows] == [
        (first.id, "superseded", None),
        (second.id, "active", first.id),
    ]


async def test_episode_and_rule(memory, lineage, owner):
    await remember.store_episode(memory, NewEpisode("hello", "general"), lineage)
    await remember.store_rule(memory, NewRule("be kind"), lineage)
    await asyncio.gather(*(remember.store_fact(memory, NewFact("a", "b", str(i)), lineage) for i in range(8)))
    assert await owner.fetchval("select count(*) from memory_events") == 2 + 8 + 7
    assert await owner.fetchval("select count(*) from facts where validity='active'") == 1
