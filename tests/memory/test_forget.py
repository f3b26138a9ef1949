"""Letting go of memories."""

import asyncio
import uuid
from datetime import timedelta

import pytest

from butlers.errors import InvalidInput
from butlers.memory.flows import forget, remember
from butlers.memory.model import NewEpisode, NewFact, NewRule
from memory.audit_stream import events, fade, metadata, sizes


@pytest.fixture
async def ids(memory, lineage):
    """One memory of each kind."""
    episode = await remember.store_episode(memory, NewEpisode("Ann called", "general"), lineage)
    fact = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    rule = await remember.store_rule(memory, NewRule("be brief", metadata={"kept": 1}), lineage)
    return {"episode": episode.id, "fact": fact.id, "rule": rule.id}


@pytest.mark.contract("R05.8", "R33.2")
async def test_a_forgotten_episode_expires_now(memory, lineage, owner, clock, ids):
    clock.advance(days=1)
    assert await forget.forget_memory(memory, "episode", str(ids["episode"]), lineage)
    assert await owner.fetchval("select expires_at from episodes") == clock.now
    told = (await events(owner, ids["episode"]))[-1]
    assert (told["event_type"], told["payload"]) == (
        "episode_forgotten",
        {
            "expires_at": {
                "from": (clock.now + timedelta(days=6)).isoformat(),
                "to": clock.now.isoformat(),
            }
        },
    )


@pytest.mark.contract("R02.3", "R33.2", "N7.1")
async def test_a_forgotten_fact_is_retracted(memory, lineage, owner, ids):
    assert await forget.forget_memory(memory, "fact", ids["fact"], lineage)
    assert await owner.fetchval("select validity from facts") == "retracted"
    told = (await events(owner, ids["fact"]))[-1]
    assert (told["event_type"], told["payload"]) == (
        "fact_retracted",
        {"from": "active", "to": "retracted"},
    )
    assert (told["actor"], told["request_id"], told["tenant_id"]) == (
        "tester",
        "request-1",
        "acme",
    )


@pytest.mark.contract("R02.3")
@pytest.mark.parametrize("state", ["fading", "superseded", "expired"])
async def test_a_fact_in_any_other_state_can_be_retracted(memory, lineage, owner, ids, state):
    if state == "fading":
        await fade(owner, "facts", ids["fact"])
    else:
        await owner.execute("update facts set validity = $1", state)
    assert await forget.forget_memory(memory, "fact", ids["fact"], lineage)
    assert (await events(owner, ids["fact"]))[-1]["payload"]["from"] == state


@pytest.mark.contract("R02.3")
async def test_a_retracted_fact_leaves_its_key_free(memory, lineage, ids):
    await forget.forget_memory(memory, "fact", ids["fact"], lineage)
    stored = await remember.store_fact(memory, NewFact("Ann", "likes", "milk"), lineage)
    assert stored.superseded_id is None


@pytest.mark.contract("R05.9", "R33.2")
async def test_a_forgotten_rule_is_flagged(memory, lineage, owner, ids):
    await fade(owner, "rules", ids["rule"])
    assert await forget.forget_memory(memory, "rule", ids["rule"], lineage)
    assert await metadata(owner, "rules", ids["rule"]) == {
        "kept": 1,
        "status": "fading",
        "forgotten": True,
    }
    told = (await events(owner, ids["rule"]))[-1]
    assert (told["event_type"], told["payload"]) == (
        "rule_forgotten",
        {"from": "fading", "to": "forgotten"},
    )


@pytest.mark.contract("R33.2")
@pytest.mark.parametrize("kind", ["episode", "fact", "rule"])
async def test_forgetting_happens_once(memory, lineage, owner, ids, kind):
    before = await sizes(owner)
    at_once = await asyncio.gather(
        *(forget.forget_memory(memory, kind, ids[kind], lineage) for _ in range(4))
    )
    assert sorted(map(bool, at_once)) == [False, False, False, True]
    assert not await forget.forget_memory(memory, kind, ids[kind], lineage)
    assert await sizes(owner) == {**before, "memory_events": before["memory_events"] + 1}


@pytest.mark.parametrize("kind", ["episode", "fact", "rule"])
async def test_what_is_not_there_or_not_ones_own_is_not_forgotten(
    memory, lineage, stranger, owner, ids, kind
):
    before = await sizes(owner)
    assert not await forget.forget_memory(memory, kind, uuid.uuid4(), lineage)
    assert not await forget.forget_memory(memory, kind, ids[kind], stranger)
    assert await sizes(owner) == before
    assert await owner.fetchval("select validity from facts") == "active"


@pytest.mark.contract("L19")
async def test_what_cannot_be_forgotten_is_refused_by_field(memory, lineage):
    with pytest.raises(InvalidInput, match="memory_type: found 'all'; valid are episode, fact"):
        await forget.forget_memory(memory, "all", uuid.uuid4(), lineage)
    with pytest.raises(InvalidInput, match="memory_id: found ''; valid is a UUID"):
        await forget.forget_memory(memory, "fact", "", lineage)
