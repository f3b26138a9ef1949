"""What rests on what: it falls into doubt with its ground, is shown so, and comes back with it."""

import re
from dataclasses import replace
from uuid import uuid4

import pytest

from butlers.errors import Conflict, InvalidInput, NotFound
from butlers.memory.flows import (
    context,
    correct,
    doubts,
    forget,
    history,
    inbox,
    links,
    recall,
    remember,
    undo,
)
from butlers.memory.flows.accept_proposal import accept
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.undo_plan import UndoSource
from butlers.memory.model import MemoryRef, MemoryType, NewEpisode, NewFact, NewRule, Origin, Trust
from memory.scripted_model import ScriptedModel, answer
from memory.scripted_model import fact as drawn


async def fact(memory, lineage, *said, on=()):
    stored = await remember.store_fact(memory, NewFact(*said, depends_on=tuple(on)), lineage)
    return MemoryRef(MemoryType.FACT, stored.id)


@pytest.fixture
async def dinner(memory, lineage):
    """Ann is vegetarian, so she orders the risotto, so the cook buys rice; and a rule."""
    diet = await fact(memory, lineage, "Ann", "diet", "vegetarian")
    dish = await fact(memory, lineage, "Ann", "dinner dish", "the risotto", on=[diet])
    rice = await fact(memory, lineage, "cook", "dinner shopping", "rice for Ann", on=[dish])
    stored = await remember.store_rule(
        memory, NewRule("Never offer Ann meat for dinner", depends_on=(diet,)), lineage
    )
    return diet, dish, rice, MemoryRef(MemoryType.RULE, stored.id)


async def in_doubt(memory, lineage):
    return {row["id"] for row in await doubts.list_doubts(memory, 100, lineage)}


async def test_what_rests_on_what_fell_is_in_doubt_until_it_stands_again(memory, lineage, dinner):
    diet, dish, rice, rule = dinner
    resting = {str(one.id) for one in (dish, rice, rule)}
    assert await in_doubt(memory, lineage) == set()
    gone = await forget.forget_memory(memory, diet.type, diet.id, lineage)
    assert {str(one["id"]) for one in gone.in_doubt} == resting
    assert "Ann dinner dish: the risotto" in [one["says"] for one in gone.in_doubt]
    listed = await doubts.list_doubts(memory, 100, lineage)
    assert {one["id"] for one in listed} == resting
    (because,) = listed[0]["because"]
    assert (because["id"], because["event_type"]) == (str(diet.id), "fact_retracted")
    explained = await history.explain_memory(memory, "fact", rice.id, lineage)
    assert {one["id"]: one["stands"] for one in explained["grounds"]} == {
        str(diet.id): False,
        str(dish.id): True,
    }
    assert explained["memory"]["in_doubt"] == [str(diet.id)]
    await forget.restore_memory(memory, "fact", diet.id, lineage)
    assert await in_doubt(memory, lineage) == set()
    # Said otherwise the ground falls; said anew, it stands.
    meat = await remember.store_fact(memory, NewFact("Ann", "diet", "eats meat"), lineage)
    assert {str(one["id"]) for one in meat.in_doubt} == resting
    assert (await correct.undo_correction(memory, meat.id, lineage)).in_doubt == ()
    assert await in_doubt(memory, lineage) == set()


async def test_it_stands_behind_and_says_so(memory, lineage, dinner):
    diet, *_ = dinner
    sure = await fact(memory, lineage, "Ann", "dinner drink", "tea with dinner")
    await forget.forget_memory(memory, "fact", diet.id, lineage)
    told = await recall.recall(memory, CandidateQuery("dinner for Ann"), 10, lineage)
    order = [bool(one.row["in_doubt"]) for one in told]
    assert order == sorted(order)
    assert told[0].ref == sure
    built = await context.build_context(
        memory, context.ContextQuery("dinner for Ann", "general", 3000), lineage
    )
    assert (
        "[dinner shopping]: rice for Ann (confidence: 1.00, via an agent, in doubt)" in built.text
    )
    assert "effectiveness: 0.00, via an agent, in doubt)" in built.text
    assert "tea with dinner (confidence: 1.00, via an agent)" in built.text
    best = await recall.recall(memory, CandidateQuery("dinner for Ann"), 1, lineage)
    assert [one.ref for one in best] == [sure], "what is in doubt takes no place from what is not"


async def test_whoever_keeps_it_says_that_it_stands_on_its_own(memory, lineage, dinner):
    diet, dish, rice, _ = dinner
    await forget.forget_memory(memory, "fact", diet.id, lineage)
    assert await doubts.clear_doubt(memory, rice, lineage)
    assert str(rice.id) not in await in_doubt(memory, lineage)
    assert not await doubts.clear_doubt(memory, rice, lineage)
    assert await doubts.clear_doubt(memory, dish, lineage)
    events = await history.memory_history(memory, dish.id, lineage)
    assert [one["payload"]["target_id"] for one in events if one["event_type"] == "link_removed"] \
        == [str(diet.id)]  # fmt: skip
    assert (await inbox.count_waiting(memory, lineage))["in_doubt"] == 1


async def test_what_cannot_carry_is_refused(memory, lineage, stranger, dinner):
    diet, dish, rice, rule = dinner
    episode = await remember.store_episode(memory, NewEpisode("Ann ate", "general"), lineage)

    async def rest(source, target, who=lineage):
        return await links.create_link(
            memory, source.type, source.id, target.type, target.id, "depends_on", who
        )

    with pytest.raises(Conflict, match="depends on"):
        await rest(diet, rice)
    with pytest.raises(InvalidInput):
        await rest(diet, diet)
    with pytest.raises(InvalidInput, match="episode"):
        await rest(diet, MemoryRef(MemoryType.EPISODE, episode.id))
    with pytest.raises(NotFound):
        await rest(diet, rice, stranger)
    with pytest.raises(NotFound, match="depends_on"):
        await fact(memory, stranger, "spy", "knows", "Ann's diet", on=[diet])
    low = type(lineage)(lineage.tenant_id, "page", origin=Origin.AGENT, ceiling=Trust.LOW)
    lure = await fact(memory, low, "page", "says", "obey")
    with pytest.raises(Conflict, match="more trusted"):
        await rest(diet, lure, low)
    assert await rest(rule, dish)
    assert not await rest(rule, dish)
    with pytest.raises(Conflict, match="supersedes"):
        after = await remember.store_fact(memory, NewFact("Ann", "diet", "vegan"), lineage)
        await rest(MemoryRef(MemoryType.FACT, after.id), diet)


async def test_taking_a_source_back_leaves_what_rested_on_it_in_doubt(memory, lineage):
    page = replace(lineage, actor="token:page")
    diet = await fact(memory, page, "Ann", "diet", "vegetarian")
    dish = await fact(memory, lineage, "Ann", "dinner dish", "the risotto", on=[diet])
    tea = await fact(memory, lineage, "Ann", "drink", "tea")
    drawn = tea.type, tea.id, dish.type, dish.id
    assert await links.create_link(memory, *drawn, "depends_on", page)
    person = replace(lineage, origin=Origin.OPERATOR)
    done = await undo.undo_source(memory, UndoSource("page"), person)
    assert (done.facts, done.links) == (1, 1)
    assert await in_doubt(memory, lineage) == {str(dish.id)}, "and what the source linked is not"


async def test_consolidation_says_what_a_fact_would_fall_with(memory, lineage, owner):
    diet = await fact(memory, lineage, "Ann", "diet", "vegetarian")
    told = NewEpisode("Ann orders the risotto at Nord, as she is vegetarian.", "general")
    await remember.store_episode(memory, told, lineage)

    def said(prompt):
        number = int(re.search(r'<fact id="(\d+)"', prompt)[1])
        dish = drawn("Ann", "dish at Nord", "the risotto", depends_on=[number, 99, str(uuid4())])
        return answer(new_facts=[dish])

    report = await run_consolidation(memory, ScriptedModel(said), lineage)
    assert (report.facts_created, report.errors) == (1, [])
    dish = await owner.fetchval("select id from facts where predicate = 'dish at Nord'")
    await forget.forget_memory(memory, "fact", diet.id, lineage)
    assert await in_doubt(memory, lineage) == {str(dish)}


async def test_what_waits_for_a_yes_keeps_what_it_would_rest_on(memory, lineage, dinner):
    diet = dinner[0]
    low = replace(lineage, ceiling=Trust.LOW)
    new = NewFact("Ann", "dinner dish", "the gnocchi", depends_on=(diet,))
    waiting = await remember.store_fact(memory, new, low)
    assert waiting.waits
    person = replace(lineage, origin=Origin.OPERATOR)
    await accept(memory, waiting.id, person)
    await forget.forget_memory(memory, "fact", diet.id, person)
    told = await doubts.list_doubts(memory, 10, lineage)
    assert "the gnocchi" in {one["content"] for one in told}
