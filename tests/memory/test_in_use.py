"""Recall in a store that is used: asked, corrected and added to, day after day."""

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from butlers.db.postgres import Database
from butlers.embedding import get_embedding_engine
from butlers.memory.flows import context, feedback, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.correct import correct_fact
from butlers.memory.model import MemoryType, NewEpisode, NewFact, NewRule, SearchMode
from butlers.memory.operations.retrieval import ANSWERING

STORES = Path(__file__).parents[2] / "bench" / "stores"
FOREIGN = (
    "Which alloy do the turbine blades of the new power station use?",
    "Who won the regatta at Henley in 1931?",
    "How do I tune the carburettor of a two-stroke moped?",
)


@pytest.fixture
def real(memory):
    """The memory with the real model: what is near is what a person would call so."""
    return replace(memory, embedder=get_embedding_engine)


def lines(kind, part, store):
    with (STORES / kind / f"{part}.jsonl").open(encoding="utf-8") as file:
        every = [json.loads(line) for line in file]
    return [line for line in every if line["store"] == store]


@pytest.fixture
async def lived(real, lineage):
    """Forty facts of one household, and what is asked of them."""
    for line in lines("facts", "memories", "facts-maya"):
        await remember.store_fact(real, NewFact("note", line["id"], line["text"]), lineage)
    asked = lines("facts", "queries", "facts-maya")
    return [line["text"] for line in asked if line["gold"]]


async def recalled(memory, text, lineage, limit=10):
    return [one.ref.id for one in await recall.recall(memory, CandidateQuery(text), limit, lineage)]


@pytest.mark.contract("L26")
async def test_a_week_of_questions_changes_the_order_and_never_what_is_recalled(
    real, lived, lineage, clock
):
    fresh = {text: await recalled(real, text, lineage) for text in lived}
    assert sum(map(len, fresh.values())) > 3 * len(lived)
    for _ in range(7):
        clock.advance(days=1)
        for text in lived[::2]:
            await recalled(real, text, lineage)
    used = {text: await recalled(real, text, lineage) for text in lived}
    for text, before in fresh.items():
        assert set(used[text]) == set(before), text
    assert used != fresh, "use orders what is relevant"


@pytest.mark.contract("L26")
async def test_what_lies_far_behind_the_best_is_no_answer(real, lived, lineage):
    query = CandidateQuery(lived[0])
    rows = await recall.search_memories(real, query, SearchMode.HYBRID, 40, lineage)
    relevances = [row["relevance"] for row in rows]
    assert relevances == sorted(relevances, reverse=True)
    assert relevances[0] > 0 == relevances[-1]
    answering = await recall.search_memories(real, query, SearchMode.HYBRID, 40, lineage, ANSWERING)
    assert answering == [row for row in rows if row["relevance"] > 0]


@pytest.mark.contract("L26")
async def test_what_was_just_told_is_found_at_once_beside_what_was_used_for_weeks(
    real, lived, lineage, clock
):
    for _ in range(3):
        clock.advance(days=1)
        for text in lived:
            await recalled(real, text, lineage)
    new = NewFact("Tobias", "locker", "The code of Tobias' locker at the pool is 4711")
    told = (await remember.store_fact(real, new, lineage)).id
    question = "What is the code of Tobias' locker at the pool?"
    found = await recall.recall(real, CandidateQuery(question), 10, lineage)
    assert max(found, key=lambda one: one.parts.relevance).ref.id == told
    block = await context.build_context(real, context.ContextQuery(question, "general"), lineage)
    assert "4711" in block.text


@pytest.mark.contract("L26")
async def test_the_most_relevant_compete_and_importance_orders_them(real, lineage):
    """An important memory of something else does not push out an answer, however few are asked."""
    vital = NewFact("Ann", "allergy", "peanuts; carries an EpiPen", importance=10.0)
    await remember.store_fact(real, vital, lineage)
    for number, drink in enumerate(("green tea", "black tea", "mint tea")):
        new = NewFact("Ann", f"drink {number}", f"likes {drink}", importance=1.0)
        await remember.store_fact(real, new, lineage)
    found = await recall.recall(real, CandidateQuery("Which green tea does Ann drink?"), 2, lineage)
    assert all("tea" in one.row["content"] for one in found)
    assert any("green" in one.row["content"] for one in found)


@pytest.mark.contract("L27")
async def test_nothing_is_an_answer(real, lived, lineage):
    for text in FOREIGN:
        assert await recalled(real, text, lineage) == []
        block = await context.build_context(real, context.ContextQuery(text, "general"), lineage)
        assert block.block.included[context.ContextSection.FACTS] == []
        best = await recall.search_memories(
            real, CandidateQuery(text), SearchMode.HYBRID, 5, lineage
        )
        assert len(best) == 5, "a search still tells the best matches"
        assert {one["relevance"] for one in best} == {0.0}
        gated = await recall.search_memories(
            real, CandidateQuery(text), SearchMode.HYBRID, 5, lineage, min_relevance=0.01
        )
        assert gated == []


@pytest.mark.contract("L27")
async def test_every_path_has_the_same_gate(real, lived, lineage):
    """What recall returns is what a search for what answers returns, down to the last."""
    for text in (*lived, *FOREIGN):
        answers = await recall.search_memories(
            real, CandidateQuery(text), SearchMode.HYBRID, 100, lineage, min_relevance=ANSWERING
        )
        assert {one["id"] for one in answers} == {
            str(one) for one in await recalled(real, text, lineage, 100)
        }


@pytest.mark.contract("L26", "L27")
async def test_a_store_that_was_used_and_left_alone_for_a_month_still_knows_what_it_knows(
    real, lived, lineage, clock
):
    """Asked fifty questions, corrected, filled by sessions, then nothing for thirty days."""
    for text in (lived * 3)[:50]:
        clock.advance(hours=2)
        await recalled(real, text, lineage)
    first = NewFact("Tobias", "locker", "The code of Tobias' locker at the pool is 1234")
    old = (await remember.store_fact(real, first, lineage)).id
    new = (await correct_fact(real, old, "The code of Tobias' locker is 4711 now", lineage)).id
    session = uuid4()
    for place in range(20):
        told = NewEpisode(f"Errand {place}: fetched parcel {place} from the post office", "general",
                          session_id=session, place=place)  # fmt: skip
        await remember.store_episode(real, told, lineage)
    clock.advance(days=30)
    found = await recall.recall(
        real, CandidateQuery("What is the code of Tobias' locker?"), 5, lineage
    )
    assert max(found, key=lambda one: one.parts.relevance).ref.id == new
    assert old not in {one.ref.id for one in found}
    for text in FOREIGN:
        assert await recalled(real, text, lineage) == []


@pytest.mark.contract("L27", "L50")
async def test_the_nearest_are_named_on_request_as_unsure_and_not_counted(
    real, lived, lineage, owner, monkeypatch
):
    """Two of a small store, one of any other; a context has none of them."""
    query = CandidateQuery(FOREIGN[0])
    two = await recall.recall(real, query, 10, lineage, nearest=True)
    monkeypatch.setattr(recall, "SMALL_STORE", 1)
    [nearest] = await recall.recall(real, query, 10, lineage, nearest=True)
    assert (len(two), nearest.ref) == (2, two[0].ref)
    assert all(one.parts.relevance == 0.0 and one.as_dict()["unsure"] for one in (*two, nearest))
    wanted = context.ContextQuery(FOREIGN[0])
    built = await context.build_context(real, wanted, lineage)
    assert not any(one.row["content"] in built.text for one in two)
    await real.uses.settle_all()
    assert await owner.fetchval("select sum(reference_count) from facts") == 0
    answering = await recall.recall(real, CandidateQuery(lived[0]), 10, lineage, nearest=True)
    assert all(one.parts.relevance > 0 and not one.unsure for one in answering)


@pytest.mark.contract("L27")
async def test_standing_rules_are_told_whatever_is_asked(real, lineage):
    always = NewRule("Always answer in metric units")
    often = NewRule("Prefer the night train to flying")
    await remember.store_rule(real, often, lineage)
    rule = await remember.store_rule(real, always, lineage)
    proven = await remember.store_rule(real, NewRule("Quote sources with their year"), lineage)
    for _ in range(5):
        await feedback.mark_helpful(real, proven.id, lineage)
    block = (
        await context.build_context(real, context.ContextQuery(FOREIGN[1], "general"), lineage)
    ).block
    told = [line.ref.id for line in block.included[context.ContextSection.RULES]]
    assert told == [proven.id, rule.id]
    rested = await context.build_context(
        real, context.ContextQuery(FOREIGN[1], "general"), lineage, counted=False
    )
    assert rested.text == block.text


@pytest.mark.contract("L41", "R08.3", "R05.6")
async def test_only_what_is_told_counts_as_used_and_the_next_call_sees_it(memory, lineage, owner):
    ids = [
        (await remember.store_fact(memory, NewFact("Ann", f"tea {n}", f"tea {n}"), lineage)).id
        for n in range(4)
    ]
    found = await recall.recall(memory, CandidateQuery("tea"), 2, lineage)
    assert len(found) == 2
    got = await recall.get_memory(memory, MemoryType.FACT, found[0].ref.id, lineage)
    assert got["reference_count"] == 2
    await memory.uses.settle_all()
    counts = dict(await owner.fetch("select id, reference_count from facts"))
    assert counts == {id_: counts.get(id_, 0) for id_ in ids}
    assert sorted(counts.values()) == [0, 0, 1, 2]


@pytest.mark.contract("L41")
@pytest.mark.parametrize("mode", list(SearchMode))
async def test_a_search_by_any_mode_sees_what_was_used_before(memory, lineage, mode):
    await remember.store_fact(memory, NewFact("Ann", "tea", "green tea"), lineage)
    await recall.recall(memory, CandidateQuery("green tea"), 5, lineage)
    [found] = await recall.search_memories(memory, CandidateQuery("green tea"), mode, 5, lineage)
    assert found["reference_count"] == 1


@pytest.mark.contract("L41")
async def test_reading_goes_on_where_nothing_can_be_written(memory, lineage, owner):
    await remember.store_fact(memory, NewFact("Ann", "tea", "green tea"), lineage)
    await owner.execute("revoke update on facts from butlers_runtime")
    try:
        for _ in range(3):
            assert len(await recall.recall(memory, CandidateQuery("green tea"), 5, lineage)) == 1
        await memory.uses.settle_all()
    finally:
        await owner.execute("grant update on facts to butlers_runtime")
    assert await owner.fetchval("select reference_count from facts") == 0
    await recall.recall(memory, CandidateQuery("green tea"), 5, lineage)
    await memory.uses.settle_all()
    assert await owner.fetchval("select reference_count from facts") == 1


async def test_a_recall_takes_two_round_trips(memory, lineage, worker_access):
    await remember.store_fact(memory, NewFact("Ann", "tea", "green tea"), lineage)
    database = await Database.open(worker_access, pool_max=1)
    spoken = []
    try:
        alone = replace(memory, database=database)
        await recall.recall(alone, CandidateQuery("green tea"), 5, lineage, counted=False)
        async with database._pool.pool.acquire() as connection:
            connection.add_query_logger(lambda record: spoken.append(record.query))
        await recall.recall(alone, CandidateQuery("green tea"), 5, lineage)
        told = len(spoken)
        await alone.uses.settle_all()
    finally:
        await database.close()
    assert told == 2, spoken
    assert len(spoken) > told, "uses are counted after the answer"
