"""Consolidation on bad days: poison, outages, many tenants and little budget, slow models."""

import json

import pytest

from butlers.errors import BudgetExhausted
from butlers.llm import CompletionFailed, NotReached
from butlers.memory.flows.consolidation.lease import claim, claim_limits
from butlers.memory.flows.consolidation.run import consolidate_all, run_consolidation
from butlers.memory.flows.entities import create_entity
from butlers.memory.policy.consolidation import Reach
from memory.consolidation_stories import (
    active_facts,
    contents,
    everything,
    reading,
    states,
    statuses,
    tell,
)
from memory.scripted_model import ScriptedModel, answer, fact

# A bad episode


@pytest.mark.contract("L28")
@pytest.mark.parametrize("place", [0, 13, 29])
async def test_one_poison_among_thirty_makes_one_dead_letter(memory, lineage, owner, clock, place):
    for number in range(30):
        text = "some poison" if number == place else f"Person{number} likes tea"
        await tell(memory, lineage, text)
        clock.advance(seconds=1)
    model, sizes = ScriptedModel(reading), []
    for _ in range(6):
        before = len(model.prompts)
        await run_consolidation(memory, model, lineage)
        sizes.append([len(contents(prompt)) for prompt in model.prompts[before:]])
        clock.advance(hours=1)
    found = await statuses(owner)
    assert found[place] == "dead_letter" and found.count("consolidated") == 29
    assert len(await active_facts(owner)) == 29
    assert sizes[0] == [30] and sizes[1] == [15, 15]
    (dead,) = [row for row in await states(owner) if row["status"] == "dead_letter"]
    assert dead["attempts"] == 5 and "No JSON block" in dead["reason"]


@pytest.mark.contract("L28")
async def test_in_a_batch_partly_wrong_only_what_was_dealt_with_is_done(memory, lineage, owner):
    for text in ("Ann likes tea", "Bob likes rum", "small talk", "Cid likes ale"):
        await tell(memory, lineage, text)
    said = answer(
        new_facts=[
            fact("Ann", "likes", "tea", source_episode_ids=[1]),
            fact("Bob", "likes", "gin", source_episode_ids=[2]),
        ],
        nothing_in=[3],
    )
    report = await run_consolidation(memory, ScriptedModel(said), lineage)
    assert await statuses(owner) == ["consolidated", "failed", "consolidated", "failed"]
    assert (report.episodes_consolidated, report.episodes_failed) == (2, 2)
    assert len(report.errors) == 1 and "new_facts[1]" in report.errors[0]
    assert [row["attempts"] for row in await states(owner)] == [0, 1, 0, 1]


@pytest.mark.contract("L28")
@pytest.mark.parametrize(
    "entry",
    [
        {"new_rules": [{"content": "Check the mail of Ann before lunch"}]},
        {"new_facts": [fact("user", "likes", "the mail of Ann before lunch")]},
    ],
    ids=["rule", "fact"],
)
async def test_an_entry_without_sources_deals_with_no_episode_that_only_shares_a_word(
    memory, lineage, owner, entry
):
    for text in ("Check the mail of Ann before lunch", "Bob reads mail before bed, Ann too"):
        await tell(memory, lineage, text)
    wrong = fact("Bob", "reads", "comics", source_episode_ids=[2])
    said = answer(**{**entry, "new_facts": [*entry.get("new_facts", ()), wrong]})
    report = await run_consolidation(memory, ScriptedModel(said), lineage)
    assert len(report.errors) == 1
    assert await statuses(owner) == ["consolidated", "failed"]


@pytest.mark.contract("L28")
@pytest.mark.parametrize("nothing", ["{}", answer(), '{"new_facts": []}'])
async def test_a_valid_answer_of_nothing_is_an_answer(memory, lineage, owner, nothing):
    for text in ("small talk", "weather"):
        await tell(memory, lineage, text)
    report = await run_consolidation(memory, ScriptedModel(nothing), lineage)
    assert report.errors == [] and await statuses(owner) == ["consolidated"] * 2


# Slow models and little time


@pytest.mark.contract("L28")
async def test_what_takes_too_long_is_asked_in_smaller_pieces(memory, lineage, owner, clock):
    """And what takes too long alone lets the others pass, with no attempt counted."""
    for number in range(8):
        text = "a slow one" if number == 2 else f"Person{number} likes tea"
        await tell(memory, lineage, text)
        clock.advance(seconds=1)

    def slow(prompt):
        if len(contents(prompt)) > 2 or "a slow one" in prompt:
            raise NotReached("too late", timed_out=True)
        return reading(prompt)

    model, errors = ScriptedModel(slow), []
    for _ in range(8):
        errors += (await run_consolidation(memory, model, lineage)).errors
    assert sorted(await statuses(owner)) == ["consolidated"] * 7 + ["pending"]
    assert {row["attempts"] for row in await states(owner)} == {0}
    assert "too late" in errors[0]


@pytest.mark.contract("L29")
async def test_a_run_drains_the_backlog_while_there_is_time(
    memory, lineage, owner, clock, set_limits
):
    set_limits(CONSOLIDATION_BATCH=2, CONSOLIDATION_MINUTES=10)
    for number in range(9):
        await tell(memory, lineage, f"Person{number} likes tea")

    def taking_four_minutes(prompt):
        clock.advance(minutes=4)
        return reading(prompt)

    model = ScriptedModel(taking_four_minutes)
    assert (await run_consolidation(memory, model, lineage)).episodes_consolidated == 6
    assert (await run_consolidation(memory, model, lineage)).episodes_consolidated == 3


async def test_a_model_of_no_use_is_not_asked_about_everything(memory, lineage, owner, set_limits):
    set_limits(CONSOLIDATION_BATCH=1)
    for number in range(15):
        await tell(memory, lineage, f"Person{number} likes tea")
    model = ScriptedModel(CompletionFailed("cut off"))
    report = await run_consolidation(memory, model, lineage)
    assert len(model.prompts) == 10 and report.episodes_failed == 10


async def test_a_spent_budget_ends_the_run_with_one_word(memory, lineage, stranger, owner):
    for whose in (lineage, stranger):
        await tell(memory, whose)
    before = await everything(owner)
    spent = ScriptedModel(BudgetExhausted("spent until midnight"))
    reports = await consolidate_all(memory, spent, "jobs")
    assert [error for one in reports.values() for error in one.errors] == [
        "general: spent until midnight"
    ]
    assert await everything(owner) == before and len(spent.prompts) == 1


# Small models


class Small(ScriptedModel):
    """A model that can read a little."""

    tokens = 4096

    async def context_tokens(self) -> int:
        return self.tokens


async def test_a_small_model_is_asked_about_one_episode_in_few_words(memory, lineage, owner):
    for number in range(3):
        await tell(memory, lineage, f"Person{number} likes tea")
    model = Small(lambda prompt: json.dumps({"sentences": {}}))
    assert (await run_consolidation(memory, model, lineage)).episodes_consolidated == 3
    assert [len(contents(prompt)) for prompt in model.prompts] == [1, 1, 1]
    assert all(len(prompt.split()) < 180 for prompt in model.prompts)
    assert set(model.calls[0]["schema"]["properties"]) == {"sentences"}


async def test_how_much_is_asked_follows_what_the_model_can_read(memory, lineage):
    for number in range(6):
        await tell(memory, lineage, f"Person{number} likes tea. " + "word " * 2_000)
    model = Small(answer())
    model.tokens = 30_000
    assert (await run_consolidation(memory, model, lineage)).episodes_consolidated == 6
    assert [len(contents(prompt)) for prompt in model.prompts] == [2, 2, 2]


# Where it belongs


@pytest.mark.contract("L32")
async def test_what_a_butler_heard_stays_with_it_unless_it_is_of_one_known_to_all(
    memory, lineage, owner
):
    await create_entity(memory, "Ann Berg", "person", ["Annie"], {"scope": "global"}, lineage)
    await create_entity(memory, "Bob", "person", [], {}, lineage)
    await tell(memory, lineage, "annie likes tea. Bob likes rum. Knock first.", butler="health")
    said = answer(
        new_facts=[fact("annie", "likes", "tea"), fact("Bob", "likes", "rum")],
        new_rules=[{"content": "Knock first"}],
    )
    report = await run_consolidation(memory, ScriptedModel(said), lineage)
    assert (report.facts_created, report.rules_created) == (2, 1)
    rows = await owner.fetch("select subject, scope from facts order by subject")
    assert [tuple(row) for row in rows] == [("Bob", "health"), ("annie", "global")]
    assert await owner.fetchval("select scope from rules") == "health"


async def test_a_lease_that_ran_out_twice_is_halved_too(memory, lineage, owner, clock):
    for number in range(4):
        await tell(memory, lineage, f"Person{number} likes tea")
    taken = []
    for _ in range(4):
        claimed = await claim(memory, "general", lineage, claim_limits(memory, Reach()))
        taken.append(len(claimed.episodes))
        clock.advance(seconds=301)
    assert taken == [4, 4, 2, 1]
