"""How much is remembered."""

from datetime import timedelta

import pytest

from butlers.db.queries import parse
from butlers.errors import InvalidInput
from butlers.memory.flows import browse, forget, remember
from butlers.memory.handle import Memory
from butlers.memory.model import (
    Event,
    EventType,
    NewEpisode,
    NewFact,
    NewRule,
)
from memory.audit_stream import fade

SQL = parse(
    """
-- retract --
-- What Ann likes is forgotten.
update facts set validity = 'retracted' where subject = 'Ann'
"""
)


async def overview(memory, lineage):
    return (await browse.memory_overview(memory, 1, lineage))[0]


async def facts_in_every_state(memory, lineage, owner, scope="global"):
    """Fifteen facts: one active, two fading, three superseded, four expired, five retracted."""
    wanted = ["active"] + ["fading"] * 2 + ["superseded"] * 3 + ["expired"] * 4 + ["retracted"] * 5
    for place, state in enumerate(wanted):
        new = NewFact(f"subject {place}", "is", state, scope=scope)
        fact = await remember.store_fact(memory, new, lineage)
        if state == "fading":
            await fade(owner, "facts", fact.id)
        else:
            await owner.execute("update facts set validity = $2 where id = $1", fact.id, state)


async def rules_of_every_maturity(memory, lineage, owner, scope="global"):
    """Fifteen rules: one candidate, two established, three proven, and so on."""
    wanted = {"candidate": 1, "established": 2, "proven": 3, "anti_pattern": 4, "forgotten": 5}
    for stage, count in wanted.items():
        for place in range(count):
            new = NewRule(f"{stage} {place}", scope=scope)
            rule = await remember.store_rule(memory, new, lineage)
            if stage == "forgotten":
                await owner.execute("update rules set maturity = 'proven' where id = $1", rule.id)
                await forget.forget_memory(memory, "rule", rule.id, lineage)
            else:
                await owner.execute("update rules set maturity = $2 where id = $1", rule.id, stage)


@pytest.mark.contract("R22.1")
async def test_episodes_are_counted_with_the_age_of_the_backlog(memory, lineage, owner, clock):
    for place, status in enumerate(["consolidated", "pending", "pending", "failed"]):
        stored = await remember.store_episode(memory, NewEpisode(str(place), "general"), lineage)
        await owner.execute(
            "update episodes set consolidation_status = $2::text, "
            "consolidated = ($2::text = 'consolidated') where id = $1",
            stored.id,
            status,
        )
        clock.advance(hours=6)
    counted = (await browse.memory_stats(memory, None, lineage))["episodes"]
    assert counted == {
        "total": 4,
        "unconsolidated": 2,
        "backlog_age_hours": 18.0,
        "consolidated": 1,
        "failed": 1,
        "dead_letter": 0,
    }


@pytest.mark.contract("R22.1")
async def test_without_a_backlog_there_is_no_age(memory, lineage):
    counted = (await browse.memory_stats(memory, None, lineage))["episodes"]
    assert (counted["total"], counted["unconsolidated"]) == (0, 0)
    assert counted["backlog_age_hours"] is None


@pytest.mark.contract("R22.2", "L19", "L6")
async def test_facts_are_counted_by_state(memory, lineage, owner):
    await facts_in_every_state(memory, lineage, owner)
    assert (await browse.memory_stats(memory, None, lineage))["facts"] == {
        "active": 1,
        "fading": 2,
        "superseded": 3,
        "expired": 4,
        "retracted": 5,
    }


@pytest.mark.contract("R22.2")
async def test_a_fact_that_was_fading_counts_once(memory, lineage, owner):
    fact = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    await fade(owner, "facts", fact.id)
    await remember.store_fact(memory, NewFact("Ann", "likes", "milk"), lineage)
    counted = (await browse.memory_stats(memory, None, lineage))["facts"]
    assert (counted["active"], counted["fading"], counted["superseded"]) == (1, 0, 1)


@pytest.mark.contract("R22.3")
async def test_rules_are_counted_by_maturity_and_forgotten_ones_apart(memory, lineage, owner):
    await rules_of_every_maturity(memory, lineage, owner)
    assert (await browse.memory_stats(memory, None, lineage))["rules"] == {
        "candidate": 1,
        "established": 2,
        "proven": 3,
        "anti_pattern": 4,
        "forgotten": 5,
    }


@pytest.mark.contract("R22.4")
async def test_a_scope_counts_its_own_and_the_global_ones(memory, lineage):
    for place, scope in enumerate(["global", "work", "work", "home", "home", "home"]):
        await remember.store_fact(memory, NewFact(str(place), "is", "x", scope=scope), lineage)
        await remember.store_rule(memory, NewRule(str(place), scope=scope), lineage)
    await remember.store_episode(memory, NewEpisode("x", "general"), lineage)

    async def counted(scope):
        found = await browse.memory_stats(memory, scope, lineage)
        return found["facts"]["active"], found["rules"]["candidate"], found["episodes"]["total"]

    assert await counted("work") == (3, 3, 1)
    assert await counted("global") == (1, 1, 1)
    assert await counted(None) == (6, 6, 1)
    with pytest.raises(InvalidInput, match="scope: found a text of 101 .* at most 100"):
        await counted("x" * 101)


async def test_another_tenants_memories_are_not_counted(memory, lineage, stranger, owner):
    await facts_in_every_state(memory, lineage, owner)
    await rules_of_every_maturity(memory, lineage, owner)
    await remember.store_episode(memory, NewEpisode("x", "general"), lineage)
    theirs = await browse.memory_stats(memory, None, stranger)
    assert [value for part in theirs.values() for value in part.values() if value] == []


async def test_the_overview_follows_whatever_happens(memory, lineage, stranger):
    another = Memory(memory.database, memory.embedder, "another", now=memory.now)
    seen = []
    for number in range(3):
        new = NewFact("Ann", "likes", f"tea {number}")
        # As another process would: this one is told by the audit stream alone.
        stored = await remember.store_fact(another, new, lineage)
        seen.append((await overview(memory, lineage))["facts"])
    assert [(one["active"], one["superseded"]) for one in seen] == [(1, 0), (1, 1), (1, 2)]
    await forget.forget_memory(another, "fact", stored.id, lineage)
    assert (await overview(memory, lineage))["facts"]["retracted"] == 1
    assert (await overview(memory, stranger))["facts"]["active"] == 0


async def test_nothing_is_counted_twice_while_nothing_happens(memory, lineage, owner):
    await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    first = await overview(memory, lineage)
    # Behind the back of the audit stream, which no flow does.
    await owner.execute("update facts set validity = 'retracted'")
    assert await overview(memory, lineage) == first
    glanced, newest = await browse.memory_overview(memory, 15, lineage)
    assert glanced == first
    assert [event["event_type"] for event in newest] == ["fact_created"]
    assert (await browse.memory_stats(memory, None, lineage))["facts"]["retracted"] == 1


async def test_an_event_told_late_is_not_missed(memory, lineage):
    await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    event = Event(EventType.FACT_RETRACTED, memory.new_id())
    async with memory.begin(lineage) as late:
        # It takes its place in the order of events now, and is told after the next one.
        await late.record(event)
        await late.tx.execute(SQL["retract"])
        await remember.store_fact(memory, NewFact("Bob", "likes", "tea"), lineage)
        before = (await overview(memory, lineage))["facts"]
    after = (await overview(memory, lineage))["facts"]
    assert (before["active"], before["retracted"]) == (2, 0)
    assert (after["active"], after["retracted"]) == (1, 1)


async def test_the_backlog_grows_older_while_nothing_happens(memory, lineage, clock):
    await remember.store_episode(memory, NewEpisode("tea", "general"), lineage)
    ages = []
    for _ in range(3):
        shown = await overview(memory, lineage)
        ages.append(timedelta(hours=shown["episodes"]["backlog_age_hours"]))
        clock.advance(hours=2)
    assert ages == [timedelta(0), timedelta(hours=2), timedelta(hours=4)]
