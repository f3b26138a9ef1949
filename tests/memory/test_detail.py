"""Everything of one memory or entity, corrections, and what a fleet shows of one butler."""

from datetime import datetime
from uuid import UUID

import pytest

from butlers.errors import Conflict, InvalidInput, NotFound
from butlers.memory.flows.browse import memory_overview
from butlers.memory.flows.correct import correct_fact
from butlers.memory.flows.entities import create_entity
from butlers.memory.flows.forget import forget_memory
from butlers.memory.flows.lookup import entity_detail, memory_detail
from butlers.memory.flows.remember import store_episode, store_fact, store_rule
from butlers.memory.model import (
    Event,
    EventType,
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Permanence,
)
from butlers.memory.policy.confidence import effective_confidence

TEA = NewFact("Ann", "likes", "tea")


@pytest.mark.contract("L4")
async def test_the_forecast_is_the_confidence_recall_would_use(memory, lineage, clock):
    fact = (await store_fact(memory, TEA, lineage)).id
    born = clock()
    clock.advance(days=20)
    detail = await memory_detail(memory, MemoryRef(MemoryType.FACT, fact), lineage)
    points = [(datetime.fromisoformat(p["at"]), p["confidence"]) for p in detail["forecast"]]
    assert points[0] == (born, 1.0)
    assert points[-1][0].isoformat() == detail["expires_at"]
    for at, confidence in points:
        assert confidence == effective_confidence(1.0, 0.008, born, at)


async def test_what_never_fades_has_a_level_forecast_and_what_is_past_has_none(memory, lineage):
    lasting = NewFact("Ann", "is", "here", permanence=Permanence.PERMANENT)
    forever = (await store_fact(memory, lasting, lineage)).id
    detail = await memory_detail(memory, MemoryRef(MemoryType.FACT, forever), lineage)
    assert {point["confidence"] for point in detail["forecast"]} == {1.0}
    await forget_memory(memory, "fact", forever, lineage)
    detail = await memory_detail(memory, MemoryRef(MemoryType.FACT, forever), lineage)
    assert detail["forecast"] == []
    assert [event["event_type"] for event in detail["events"]] == [
        "fact_created",
        "fact_retracted",
    ]


async def test_an_episode_has_no_forecast(memory, lineage):
    episode = (await store_episode(memory, NewEpisode("tea", "general"), lineage)).id
    detail = await memory_detail(memory, MemoryRef(MemoryType.EPISODE, episode), lineage)
    assert (detail["forecast"], detail["memory"]["content"]) == ([], "tea")


async def test_what_is_not_there_has_no_detail(memory, lineage, stranger):
    rule = (await store_rule(memory, NewRule("be brief"), lineage)).id
    assert await memory_detail(memory, MemoryRef(MemoryType.RULE, rule), stranger) is None
    assert await memory_detail(memory, MemoryRef(MemoryType.FACT, rule), lineage) is None
    assert await entity_detail(memory, UUID(int=9), lineage) is None


async def test_an_entity_is_shown_with_its_facts_and_events(memory, lineage):
    ann = await create_entity(memory, "Ann", "person", None, None, lineage)
    fact = (await store_fact(memory, NewFact("Ann", "likes", "tea", entity_id=ann), lineage)).id
    await forget_memory(memory, "fact", fact, lineage)
    detail = await entity_detail(memory, ann, lineage)
    assert detail["entity"]["canonical_name"] == "Ann"
    assert [(one["id"], one["state"]) for one in detail["facts"]] == [(str(fact), "retracted")]
    assert detail["more_facts"] is False
    assert [event["event_type"] for event in detail["events"]] == ["entity_created"]


async def test_a_correction_keeps_what_it_is_not_given(memory, lineage):
    ann = await create_entity(memory, "Ann", "person", None, None, lineage)
    before = NewFact(
        "Ann", "likes", "tea", importance=8.0, permanence=Permanence.STABLE, scope="kitchen",
        tags=("drink",), entity_id=ann,
    )  # fmt: skip
    old = (await store_fact(memory, before, lineage)).id
    corrected = await correct_fact(memory, old, "coffee", lineage)
    assert corrected.superseded_id == old
    new = (await memory_detail(memory, MemoryRef(MemoryType.FACT, corrected.id), lineage))["memory"]
    assert (new["content"], new["importance"], new["permanence"]) == ("coffee", 8.0, "stable")
    assert (new["scope"], new["tags"], new["entity_id"]) == ("kitchen", ["drink"], str(ann))


async def test_only_what_holds_can_be_corrected(memory, lineage, stranger):
    old = (await store_fact(memory, TEA, lineage)).id
    await correct_fact(memory, old, "coffee", lineage)
    with pytest.raises(Conflict, match=f"fact_id: fact {old} is superseded"):
        await correct_fact(memory, old, "water", lineage)
    with pytest.raises(NotFound, match="fact_id"):
        await correct_fact(memory, old, "water", stranger)
    new = (await store_fact(memory, TEA, lineage)).id
    with pytest.raises(InvalidInput, match="content"):
        await correct_fact(memory, new, " ", lineage)


async def test_the_overview_says_when_something_was_last_consolidated(memory, lineage, clock):
    await store_fact(memory, TEA, lineage)
    assert (await memory_overview(memory, 1, lineage))[0]["last_consolidated_at"] is None
    for _ in range(2):
        clock.advance(hours=1)
        event = Event(EventType.EPISODE_CONSOLIDATED, memory.new_id())
        async with memory.begin(lineage) as work:
            await work.record(event)
    shown, _ = await memory_overview(memory, 1, lineage)
    assert shown["last_consolidated_at"] == clock().isoformat()
    assert shown["facts"]["active"] == 1
