"""Recalling by relevance, importance, recency and confidence together."""

import asyncio
import math
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.embedding import get_embedding_engine
from butlers.memory.flows import recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.model import MemoryRef, MemoryType, NewEpisode, NewFact, NewRule, SearchMode
from butlers.memory.policy import ranker
from butlers.memory.policy.confidence import effective_confidence
from butlers.memory.settings import MemoryModuleConfig, ScoreWeights
from conftest import WalkingClock
from db.databases import connected, planning, until_waiting

NOW = WalkingClock().now


@pytest.fixture
def memory(memory):
    """The memory with the real model: what is near is what a person would call so."""
    return replace(memory, embedder=get_embedding_engine)


async def fact(memory, lineage, content, **more):
    new = NewFact("Ann", more.pop("predicate", content), content, **more)
    return (await remember.store_fact(memory, new, lineage)).id


@pytest.mark.contract("R08.1", "L13", "N6.2")
async def test_the_composite_is_the_weighted_sum_of_its_parts(memory, lineage, clock):
    await fact(memory, lineage, "tea", importance=8.0, permanence="volatile")
    await recall.recall(memory, CandidateQuery("tea"), 5, lineage)
    clock.advance(days=7)
    [one] = await recall.recall(memory, CandidateQuery("tea"), 5, lineage)
    assert one.rrf_score == pytest.approx(2 / 61)
    [found] = await recall.search_memories(
        memory, CandidateQuery("tea"), SearchMode.HYBRID, 5, lineage
    )
    assert one.parts.relevance == found["relevance"]
    assert 0.5 < one.parts.relevance <= 1.0
    assert one.parts.importance == pytest.approx(0.8)
    assert one.parts.recency == pytest.approx(0.5)
    assert one.parts.confidence == pytest.approx(math.exp(-0.03 * 7))
    others = 0.3 * 0.8 + 0.2 * 0.5 + 0.1 * math.exp(-0.21)
    expected = 0.4 * one.parts.relevance + others
    assert one.composite_score == pytest.approx(expected)
    shown = one.as_dict()
    assert shown["composite_score"] == one.composite_score
    assert set(shown["score_parts"]) == {"relevance", "importance", "recency", "confidence"}


@pytest.mark.contract("R08.1", "N6.2", "R23.2")
async def test_weights_come_from_settings(memory, lineage):
    weights = {"relevance": 0.0, "importance": 1.0, "recency": 0.0, "confidence": 0.0}
    config = MemoryModuleConfig.model_validate({"retrieval": {"score_weights": weights}})
    weighed = replace(memory, settings=config)
    await fact(memory, lineage, "green tea green tea", importance=1.0)
    vital = await fact(memory, lineage, "green tea at once", importance=9.0)
    recalled = await recall.recall(weighed, CandidateQuery("green tea"), 5, lineage)
    assert recalled[0].ref.id == vital
    assert [one.composite_score for one in recalled] == pytest.approx([0.9, 0.1])


@pytest.mark.contract("R08.2", "L5")
def test_recency_halves_in_seven_days_and_is_nothing_without_a_use():
    def recency(used_at):
        return ranker.score_parts(1.0, {"last_referenced_at": used_at}, NOW).recency

    assert recency(None) == 0.0
    assert recency(NOW) == 1.0
    assert recency(NOW - timedelta(days=7)) == pytest.approx(0.5)
    assert recency(NOW - timedelta(days=21)) == pytest.approx(0.125)
    assert recency(NOW + timedelta(days=3)) == 1.0


@given(days=st.floats(0, 50_000), importance=st.floats(-5, 50), rrf=st.floats(0, 1))
def test_every_part_stays_between_zero_and_one(days, importance, rrf):
    used = {"last_referenced_at": NOW - timedelta(days=days)}
    row = {"importance": importance, "effective_confidence": 0.7, **used}
    parts = ranker.score_parts(rrf, row, NOW)
    for part in (parts.relevance, parts.importance, parts.recency, parts.confidence):
        assert 0.0 <= part <= 1.0
    assert 0.0 <= parts.composite(ScoreWeights()) <= 1.0 + 1e-9


@pytest.mark.contract("R08.3")
async def test_what_is_recalled_counts_as_used_and_nothing_else_does(memory, lineage, clock, owner):
    kept = [await fact(memory, lineage, f"tea {n}") for n in range(4)]
    clock.advance(hours=1)
    recalled = await recall.recall(memory, CandidateQuery("tea 1"), 2, lineage)
    assert len(recalled) == 2
    used = {one.ref.id for one in recalled}
    await memory.uses.settle_all()
    for row in await owner.fetch("select id, reference_count, last_referenced_at from facts"):
        assert row["reference_count"] == (row["id"] in used)
        assert row["last_referenced_at"] == (clock.now if row["id"] in used else None)
    assert used < set(kept)
    assert all(one.row["reference_count"] == 1 for one in recalled)


@pytest.mark.parametrize("kind", list(MemoryType))
async def test_uses_are_counted_in_one_order_so_that_no_writer_waits_for_another(
    memory, lineage, owner, worker_access, kind
):
    """The writer waits for the row with the lowest id, and holds no other while it does.

    Rows lie in the order of falling ids and are read as they lie: only sorting helps.
    """
    falling = iter(range(1_000, 0, -1))
    backwards = replace(memory, new_id=lambda: uuid.UUID(int=next(falling)))
    for number in range(3):
        await store(backwards, lineage, kind, f"tea {number}")
    first, *others = [r["id"] for r in await owner.fetch(f"select id from {kind}s order by id")]
    as_they_lie = {"enable_indexscan": "off", "enable_bitmapscan": "off"}
    async with planning(worker_access, as_they_lie) as database:
        reader = replace(memory, database=database)
        async with connected(worker_access.owner_dsn) as holder, holder.transaction():
            await holder.execute(f"select from {kind}s where id = $1 for update", first)
            told = [MemoryRef(kind, one) for one in (*reversed(others), first)]
            reader.uses.count(lineage.tenant_id, told, memory.now())
            await until_waiting(owner)
            free = await holder.fetch(
                f"select id from {kind}s where id = any($1) order by id for update skip locked",
                others,
            )
        assert [row["id"] for row in free] == others
        await reader.uses.settle_all()


async def store(memory, lineage, kind, text):
    match kind:
        case MemoryType.EPISODE:
            await remember.store_episode(memory, NewEpisode(text, "general"), lineage)
        case MemoryType.FACT:
            await remember.store_fact(memory, NewFact("Ann", text, text), lineage)
        case MemoryType.RULE:
            await remember.store_rule(memory, NewRule(text), lineage)


async def test_two_recalls_at_once_both_count(memory, lineage, owner):
    for number in range(10):
        await fact(memory, lineage, f"tea {number}")
    await asyncio.gather(
        *(recall.recall(memory, CandidateQuery("tea"), 10, lineage) for _ in range(8))
    )
    await memory.uses.settle_all()
    assert set(await owner.fetchval("select array_agg(reference_count) from facts")) == {8}


@pytest.mark.contract("R08.1", "L4")
async def test_faded_memories_are_not_recalled(memory, lineage, clock):
    await fact(memory, lineage, "tea for now", permanence="ephemeral")
    lasting = await fact(memory, lineage, "tea for ever", permanence="permanent")
    clock.advance(days=20)
    recalled = await recall.recall(memory, CandidateQuery("tea"), 5, lineage)
    assert [one.ref.id for one in recalled] == [lasting]


@pytest.mark.contract("R34.1", "N6.4")
async def test_equal_scores_go_by_newest_and_then_by_id(memory, lineage, clock):
    """Scores made equal by weighing importance alone; the order must still be total."""
    only = {"relevance": 0.0, "importance": 1.0, "recency": 0.0, "confidence": 0.0}
    config = MemoryModuleConfig.model_validate({"retrieval": {"score_weights": only}})
    even = replace(memory, settings=config)
    older = [await fact(memory, lineage, "tea", predicate=f"old {n}") for n in range(2)]
    clock.advance(days=1)
    newer = [await fact(memory, lineage, "tea", predicate=f"new {n}") for n in range(2)]
    recalled = [one.ref.id for one in await recall.recall(even, CandidateQuery("tea"), 10, lineage)]
    assert recalled == [*sorted(newer), *sorted(older)]


async def test_recall_covers_all_three_kinds(memory, lineage):
    await fact(memory, lineage, "tea")
    await remember.store_rule(memory, NewRule("offer tea"), lineage)
    await remember.store_episode(memory, NewEpisode("bought tea", "general"), lineage)
    recalled = await recall.recall(memory, CandidateQuery("tea"), 10, lineage)
    assert {one.ref.type for one in recalled} == set(MemoryType)


@pytest.mark.contract("R09.1", "R09.2", "L4")
@pytest.mark.parametrize(
    ("rate", "confirmed", "expected"),
    [
        (0.0, None, 0.9),
        (0.0, NOW - timedelta(days=9_999), 0.9),
        (0.008, None, 0.0),
        (0.008, NOW, 0.9),
        (0.008, NOW + timedelta(days=5), 0.9),
        (0.1, NOW - timedelta(days=10), 0.9 * math.exp(-1)),
    ],
)
async def test_confidence_decays_as_written_in_python_and_in_sql(owner, rate, confirmed, expected):
    assert effective_confidence(0.9, rate, confirmed, NOW) == pytest.approx(expected)
    in_sql = await owner.fetchval(
        "select effective_confidence(0.9, $1, $2, $3)", rate, confirmed, NOW
    )
    assert in_sql == pytest.approx(expected)


@pytest.mark.contract("L4")
async def test_python_and_sql_agree_on_confidence_everywhere(owner):
    cases = [
        (confidence / 7, rate, NOW - timedelta(hours=hours * 13.7), NOW, floor)
        for confidence in range(8)
        for floor in (0.0, confidence / 14)
        for rate in (0.0, 0.002, 0.008, 0.03, 0.1, 3.0)
        for hours in (-10, 0, 1, 50, 5_000)
    ]
    for case in cases:
        in_sql = await owner.fetchval("select effective_confidence($1, $2, $3, $4, $5)", *case)
        assert in_sql == pytest.approx(effective_confidence(*case))


async def test_a_question_that_several_are_asked_is_embedded_once(memory, lineage, monkeypatch):
    engine = get_embedding_engine()
    await fact(memory, lineage, "green tea with milk")
    embedded = []
    network = engine._loaded()
    encode = network.encode
    monkeypatch.setattr(network, "encode", lambda batch: embedded.append(batch) or encode(batch))
    question = f"What is drunk with milk? {uuid.uuid4()}"
    for one in (memory, replace(memory, butler="other")):
        await recall.recall(one, CandidateQuery(question), 5, lineage)
    assert len(embedded) == 1


async def test_where_every_memory_answers_some_are_told(memory, lineage):
    """Nothing stands out there, which must not be taken for nothing being there."""
    for turn in range(130):
        new = NewFact(f"writer {turn % 4}", f"turn {turn}", "came in between")
        await remember.store_fact(memory, new, lineage)
    assert (
        len(await recall.recall(memory, CandidateQuery("what came in between?"), 10, lineage)) == 10
    )
    assert (
        await recall.recall(memory, CandidateQuery("which wine goes with fish?"), 10, lineage) == []
    )
