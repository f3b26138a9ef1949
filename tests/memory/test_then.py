"""What held at a time, and what was believed at one; what the past does not say of now."""

from datetime import UTC, datetime, timedelta

import pytest

from butlers.errors import InvalidInput
from butlers.memory.flows import browse, context, forget, links, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.history import explain_memory
from butlers.memory.model import (
    Event,
    EventType,
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    SearchMode,
    Then,
)
from butlers.memory.operations import OPERATIONS

JANUARY, FEBRUARY, MARCH, MAY = (
    datetime(2026, month, 10, 12, tzinfo=UTC) for month in (1, 2, 3, 5)
)


async def held(memory, owner, lineage, fact, since, until):
    """Let a fact have held within a window, as storing says of one that is replaced."""
    was = await owner.fetchrow("select valid_from, valid_to from facts where id = $1", fact)
    if tuple(was) == (since, until):
        return
    query = "update facts set valid_from = $2, valid_to = $3 where id = $1"
    await owner.execute(query, fact, since, until)
    moved = {"from": _iso(*was), "to": _iso(since, until)}
    event = Event(EventType.FACT_CONFIRMED, fact, {"window": moved})
    async with memory.begin(lineage) as work:
        await work.record(event)


def _iso(*times):
    return [at and at.isoformat() for at in times]


async def found(memory, lineage, then, mode=SearchMode.HYBRID):
    """What a search for Ann's city says of a time, best first."""
    query = CandidateQuery("which city does Ann live in", then=then)
    told = await recall.search_memories(memory, query, mode, 10, lineage)
    return [one["content"] for one in told]


@pytest.fixture
async def moved(memory, owner, lineage, clock):
    """Ann lived in Oslo, moved to Berlin in March; in May it turns out she never was in Oslo."""
    clock.now = JANUARY
    said = await remember.store_episode(
        memory, NewEpisode("Ann told us that she lives in the city of Oslo", "general"), lineage
    )
    oslo = await remember.store_fact(
        memory, NewFact("Ann", "city", "Oslo", source_episode_id=said.id), lineage
    )
    clock.now = MARCH
    berlin = await remember.store_fact(memory, NewFact("Ann", "city", "Berlin"), lineage)
    await held(memory, owner, lineage, oslo.id, None, MARCH)
    await held(memory, owner, lineage, berlin.id, MARCH, None)
    await owner.execute("update episodes set expires_at = expires_at + interval '1 year'")
    clock.advance(hours=1)
    return said.id, oslo.id, berlin.id


@pytest.mark.contract("L38")
async def test_a_time_has_its_own_truth_and_its_own_beliefs(memory, owner, lineage, clock, moved):
    said, oslo, berlin = moved
    story = "Ann told us that she lives in the city of Oslo"
    assert await found(memory, lineage, Then()) == ["Berlin", story]
    assert (await found(memory, lineage, Then(FEBRUARY)))[0] == "Oslo"
    assert await found(memory, lineage, Then(JANUARY - timedelta(days=1))) == ["Oslo"]
    assert await found(memory, lineage, Then(MAY)) == ["Berlin", story]
    assert (await found(memory, lineage, Then(None, FEBRUARY)))[0] == "Oslo"
    assert "Berlin" not in await found(memory, lineage, Then(MAY, FEBRUARY))
    assert await found(memory, lineage, Then(None, JANUARY - timedelta(days=1))) == []
    for mode in (SearchMode.SEMANTIC, SearchMode.KEYWORD):
        assert "Berlin" not in await found(memory, lineage, Then(FEBRUARY), mode)
    # It was a lie: by what is believed since, it never held; what was believed stays.
    clock.now = MAY
    await forget.forget_memory(memory, "fact", oslo, lineage)
    clock.advance(hours=1)
    assert await found(memory, lineage, Then(FEBRUARY)) == [story]
    assert (await found(memory, lineage, Then(None, FEBRUARY)))[0] == "Oslo"
    listed = await browse.list_page(
        memory,
        browse.FactFilter(subject="Ann"),
        browse.PageRequest(),
        lineage,
        Then(None, FEBRUARY),
    )
    assert [one["content"] for one in listed.items] == ["Oslo"]
    now = await browse.list_page(
        memory, browse.FactFilter(), browse.PageRequest(), lineage, Then(MAY)
    )
    assert [one["content"] for one in now.items] == ["Berlin"]


@pytest.mark.contract("L38")
async def test_a_memory_is_explained_as_it_was(memory, lineage, clock, moved):
    said, oslo, _ = moved
    now = await explain_memory(memory, "fact", oslo, lineage)
    assert (now["holds"], len(now["replaced_by"])) == (False, 1)
    then = await explain_memory(memory, "fact", oslo, lineage, Then(None, FEBRUARY))
    assert (then["holds"], then["replaced_by"]) == (True, [])
    source = await explain_memory(memory, "episode", said, lineage)
    assert [one["content"] for one in source["outdated_by"]] == ["Berlin"]
    earlier = await explain_memory(memory, "episode", said, lineage, Then(FEBRUARY))
    assert earlier["outdated_by"] == []


@pytest.mark.contract("L40", "L41")
async def test_a_context_of_the_past_says_so_and_counts_no_use(
    memory, owner, lineage, clock, moved
):
    await remember.store_rule(memory, NewRule("Always greet Ann in her city"), lineage)
    built = await context.build_context(
        memory,
        context.ContextQuery("which city does Ann live in", "general", 3000, Then(FEBRUARY)),
        lineage,
    )
    assert "It tells as of 2026-02-10 12:00 UTC, not of now." in built.text
    assert "[city]: Oslo" in built.text
    assert "Berlin" not in built.text
    assert "city of Oslo" in built.text, "it was not outdated then"
    await memory.uses.settle_all()
    assert await owner.fetchval("select sum(reference_count) from facts") == 0
    believed = await context.build_context(
        memory,
        context.ContextQuery("which city does Ann live in", "general", 3000, Then(MAY, FEBRUARY)),
        lineage,
    )
    assert "as of 2026-05-10 12:00 UTC as believed at 2026-02-10 12:00 UTC" in believed.text
    assert "Active Rules" not in believed.text


async def test_a_date_is_the_end_of_its_day_and_a_time_needs_its_offset():
    search = OPERATIONS["search"]
    asked = search.parse(
        {"query": "Ann", "as_of": "2026-03-01", "known_at": "2026-03-01T02:00+02:00"}
    )
    assert asked.as_of == datetime(2026, 3, 1, 23, 59, 59, 999999, tzinfo=UTC)
    assert asked.known_at == datetime(2026, 3, 1, tzinfo=UTC)
    for wrong in ("2026-03-01T02:00", "yesterday", "2026-02-31", "9999-12-31T23:00-05:00", 3.5j):
        with pytest.raises(InvalidInput, match="as_of"):
            search.parse({"query": "Ann", "as_of": wrong})


@pytest.mark.contract("L40")
async def test_what_is_outdated_is_told_of_nobody_until_it_holds_again(
    memory, lineage, clock, owner
):
    said = await remember.store_episode(
        memory, NewEpisode("Ann said her city is Oslo", "general"), lineage
    )
    oslo = await remember.store_fact(
        memory, NewFact("Ann", "city", "Oslo", source_episode_id=said.id), lineage
    )
    other = await remember.store_episode(
        memory, NewEpisode("Ann said something of her city", "general"), lineage
    )

    async def shown():
        built = await context.build_context(
            memory, context.ContextQuery("Ann's city", "general", 3000), lineage
        )
        told = await recall.recall(memory, CandidateQuery("Ann's city"), 10, lineage)
        last = told[-1]
        return "city is Oslo" in built.text, last.ref.id == said.id, last.row.get("outdated_by")

    assert (await shown())[::2] == (True, None)
    # Forgotten: the episode does not answer for it.
    gone = await forget.forget_memory(memory, "fact", oslo.id, lineage)
    assert [one["id"] for one in gone.sources] == [said.id]
    assert await shown() == (False, True, [str(oslo.id)])
    await forget.restore_memory(memory, "fact", oslo.id, lineage)
    assert (await shown())[0]
    # Replaced, and replaced back: it says again what holds.
    berlin = await remember.store_fact(memory, NewFact("Ann", "city", "Berlin"), lineage)
    assert await shown() == (False, True, [str(berlin.id)])
    await remember.store_fact(memory, NewFact("Ann", "city", "oslo."), lineage)
    assert (await shown())[0]
    # Faded away, and nothing else is known.
    await owner.execute("update facts set validity = 'expired' where validity = 'active'")
    assert (await shown())[:2] == (False, True)
    await forget.forget_memory(memory, "episode", other.id, lineage)
    assert await recall.recall(memory, CandidateQuery("Ann's city"), 10, lineage) == []
    (near,) = await recall.recall(memory, CandidateQuery("Ann's city"), 10, lineage, nearest=True)
    assert near.row["outdated_by"]


async def test_sources_go_along_unless_something_else_rests_on_them(memory, lineage):
    texts = ("Ann likes tea", "Ann likes tea and jazz")
    alone, shared = [
        (await remember.store_episode(memory, NewEpisode(text, "general"), lineage)).id
        for text in texts
    ]
    tea = await remember.store_fact(
        memory, NewFact("Ann", "drink", "tea", source_episode_id=alone), lineage
    )
    jazz = await remember.store_fact(
        memory, NewFact("Ann", "music", "jazz", source_episode_id=shared), lineage
    )
    await drawn_from(memory, lineage, tea.id, shared)
    gone = await forget.forget_memory(memory, "fact", tea.id, lineage, with_sources=True)
    assert [one["id"] for one in gone.sources_forgotten] == [alone]
    assert [one["id"] for one in gone.sources] == [shared]
    last = await forget.forget_memory(memory, "fact", jazz.id, lineage, with_sources=True)
    assert [one["says"] for one in last.sources_forgotten] == ["Ann likes tea and jazz"]
    assert await recall.recall(memory, CandidateQuery("what does Ann like"), 10, lineage) == []


def ref(kind, id):
    return MemoryRef(MemoryType(kind), id)


async def drawn_from(memory, lineage, fact, episode):
    await links.create_link(memory, "fact", fact, "episode", episode, "derived_from", lineage)


@pytest.mark.contract("L38", "L40")
async def test_a_forgotten_fact_never_held_and_its_episode_does_not_answer_for_it(
    memory, lineage, clock
):
    said = await remember.store_episode(
        memory, NewEpisode("Ann said her city is Oslo", "general"), lineage
    )
    oslo = await remember.store_fact(
        memory, NewFact("Ann", "city", "Oslo", source_episode_id=said.id), lineage
    )
    clock.advance(days=2)
    past = CandidateQuery("Ann's city", then=Then(clock.now - timedelta(days=1)))

    async def shown():
        told = await recall.recall(memory, past, 10, lineage)
        return {one.ref.id: one.row.get("outdated_by") for one in told}

    assert await shown() == {oslo.id: None, said.id: None}
    await forget.forget_memory(memory, "fact", oslo.id, lineage)
    assert await shown() in ({}, {said.id: [str(oslo.id)]})
