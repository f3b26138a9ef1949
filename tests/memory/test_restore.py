"""Taking back that something was forgotten."""

from uuid import UUID

import pytest

from butlers.errors import Conflict
from butlers.memory.flows.browse import (
    FactFilter,
    PageRequest,
    RuleFilter,
    list_page,
)
from butlers.memory.flows.forget import forget_memory, restore_memory
from butlers.memory.flows.history import memory_history
from butlers.memory.flows.remember import store_fact, store_rule
from butlers.memory.model import NewFact, NewRule

TEA = NewFact("Ann", "likes", "tea")


async def state(memory, lineage, fact_id):
    shown = (await list_page(memory, FactFilter(), PageRequest(), lineage)).items
    return next(fact["state"] for fact in shown if fact["id"] == str(fact_id))


async def last_event(memory, lineage, memory_id):
    return (await memory_history(memory, memory_id, lineage))[-1]


@pytest.mark.contract("L6")
async def test_a_forgotten_fact_is_active_again(memory, lineage):
    fact = (await store_fact(memory, TEA, lineage)).id
    await forget_memory(memory, "fact", fact, lineage)
    assert await restore_memory(memory, "fact", fact, lineage)
    assert await state(memory, lineage, fact) == "active"
    event = await last_event(memory, lineage, fact)
    assert event["event_type"] == "fact_restored"
    assert event["payload"] == {"from": "retracted", "to": "active"}
    assert event["request_id"] == lineage.request_id


async def test_a_fact_that_was_fading_is_fading_again(memory, lineage, owner):
    fact = (await store_fact(memory, TEA, lineage)).id
    await owner.execute("""update facts set metadata = '{"status": "fading"}'""")
    await forget_memory(memory, "fact", fact, lineage)
    assert await state(memory, lineage, fact) == "retracted"
    assert await restore_memory(memory, "fact", fact, lineage)
    assert await state(memory, lineage, fact) == "fading"
    assert (await last_event(memory, lineage, fact))["payload"]["to"] == "fading"


async def test_a_fact_of_the_past_returns_to_the_past(memory, lineage):
    old = (await store_fact(memory, TEA, lineage)).id
    new = (await store_fact(memory, NewFact("Ann", "likes", "coffee"), lineage)).id
    await forget_memory(memory, "fact", old, lineage)
    assert await restore_memory(memory, "fact", old, lineage)
    assert await state(memory, lineage, old) == "superseded"
    assert await state(memory, lineage, new) == "active"


async def test_a_place_that_is_taken_is_a_conflict_that_names_the_holder(memory, lineage):
    old = (await store_fact(memory, TEA, lineage)).id
    await forget_memory(memory, "fact", old, lineage)
    new = (await store_fact(memory, NewFact("Ann", "likes", "coffee"), lineage)).id
    with pytest.raises(Conflict, match=f"fact {new} has replaced it"):
        await restore_memory(memory, "fact", old, lineage)
    assert await state(memory, lineage, old) == "retracted"
    await forget_memory(memory, "fact", new, lineage)
    assert await restore_memory(memory, "fact", old, lineage)


async def test_a_forgotten_rule_is_in_use_again(memory, lineage):
    rule = (await store_rule(memory, NewRule("be brief"), lineage)).id
    assert not await restore_memory(memory, "rule", rule, lineage)
    await forget_memory(memory, "rule", rule, lineage)
    assert await restore_memory(memory, "rule", rule, lineage)
    in_use = await list_page(memory, RuleFilter(state="active"), PageRequest(), lineage)
    assert [one["id"] for one in in_use.items] == [str(rule)]
    event = await last_event(memory, lineage, rule)
    assert (event["event_type"], event["payload"]) == (
        "rule_restored",
        {"from": "forgotten", "to": "active"},
    )


async def test_what_was_not_forgotten_has_nothing_to_restore(memory, lineage):
    fact = (await store_fact(memory, TEA, lineage)).id
    assert not await restore_memory(memory, "fact", fact, lineage)
    assert not await restore_memory(memory, "fact", UUID(int=5), lineage)
    assert (await last_event(memory, lineage, fact))["event_type"] == "fact_created"


@pytest.mark.contract("L1")
async def test_nobody_restores_for_another_tenant(memory, lineage, stranger):
    fact = (await store_fact(memory, TEA, lineage)).id
    rule = (await store_rule(memory, NewRule("be brief"), lineage)).id
    await forget_memory(memory, "fact", fact, lineage)
    await forget_memory(memory, "rule", rule, lineage)
    assert not await restore_memory(memory, "fact", fact, stranger)
    assert not await restore_memory(memory, "rule", rule, stranger)
    assert await state(memory, lineage, fact) == "retracted"
