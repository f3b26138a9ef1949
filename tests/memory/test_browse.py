"""Listings: every filter, one order, and pages that neither repeat nor leave out."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from butlers.errors import InvalidInput
from butlers.memory.flows import entities, feedback, remember
from butlers.memory.flows.browse import (
    EntityFilter,
    EpisodeFilter,
    FactFilter,
    PageRequest,
    RuleFilter,
    activity_after,
    list_page,
    recent_activity,
)
from butlers.memory.flows.entity_merge import merge_entities
from butlers.memory.flows.forget import forget_memory
from butlers.memory.model import NewEpisode, NewFact, NewRule, Permanence
from butlers.memory.policy import cursors
from butlers.memory.policy.cursors import RowPosition


async def store_facts(memory, lineage, count, **fields):
    """Facts about different subjects; their ids in the order stored."""
    return [
        (
            await remember.store_fact(
                memory, NewFact(**{"subject": f"s{n}", "predicate": "likes", "content": "tea"}
                                | fields), lineage
            )
        ).id
        for n in range(count)
    ]  # fmt: skip


async def walk(browse, memory, where, lineage, limit):
    """The ids of every page, page by page."""
    pages, cursor = [], None
    while True:
        page = await browse(memory, where, PageRequest(limit, cursor), lineage)
        pages.append([item["id"] for item in page.items])
        cursor = page.next_cursor
        if cursor is None:
            return pages


async def ids(browse, memory, where, lineage, wanted=None):
    page = await browse(memory, where, wanted or PageRequest(), lineage)
    return {UUID(item["id"]) for item in page.items}


async def test_pages_neither_repeat_nor_leave_out(memory, lineage, clock):
    stored = await store_facts(memory, lineage, 4)  # all at one instant
    clock.advance(hours=1)
    stored += await store_facts(memory, lineage, 3, predicate="owns")
    pages = await walk(list_page, memory, FactFilter(), lineage, 3)
    assert [len(page) for page in pages] == [3, 3, 1]
    newest_first = [*sorted(map(str, stored[4:])), *sorted(map(str, stored[:4]))]
    assert [one for page in pages for one in page] == newest_first


async def test_what_is_stored_meanwhile_does_not_move_the_pages(memory, lineage, clock):
    stored = await store_facts(memory, lineage, 3)
    first = await list_page(memory, FactFilter(), PageRequest(2), lineage)
    clock.advance(seconds=1)
    await store_facts(memory, lineage, 2, predicate="owns")
    rest = await list_page(memory, FactFilter(), PageRequest(2, first.next_cursor), lineage)
    assert {item["id"] for item in first.items + rest.items} == set(map(str, stored))
    assert rest.next_cursor is None


async def test_a_full_last_page_has_no_next(memory, lineage):
    await store_facts(memory, lineage, 2)
    page = await list_page(memory, FactFilter(), PageRequest(2), lineage)
    assert len(page.items) == 2
    assert page.next_cursor is None


@pytest.mark.contract("L6")
async def test_facts_by_state(memory, lineage, owner):
    old, kept, fading, gone = await store_facts(memory, lineage, 4)
    new = (await store_facts(memory, lineage, 1))[0]  # replaces the first
    await forget_memory(memory, "fact", gone, lineage)
    await owner.execute(
        """update facts set metadata = '{"status": "fading"}' where id = $1""", fading
    )
    expected = {
        "active": {kept, new}, "fading": {fading}, "superseded": {old}, "retracted": {gone},
        "expired": set(),
    }  # fmt: skip
    for state, stored in expected.items():
        assert await ids(list_page, memory, FactFilter(state=state), lineage) == stored


async def test_facts_by_everything_else(memory, lineage):
    entity = await entities.create_entity(memory, "Ann", "person", None, None, lineage)
    (plain,) = await store_facts(memory, lineage, 1)
    (special,) = await store_facts(
        memory, lineage, 1, subject="Ann", predicate="lives in", scope="kitchen",
        permanence=Permanence.STABLE, tags=("home", "50%_?"), entity_id=entity,
    )  # fmt: skip
    for where in (
        FactFilter(scope="kitchen"),
        FactFilter(permanence="stable"),
        FactFilter(subject="Ann"),
        FactFilter(predicate="lives in"),
        FactFilter(tag="home"),
        FactFilter(tag="50%_?"),
        FactFilter(entity_id=entity),
    ):
        assert await ids(list_page, memory, where, lineage) == {special}
    assert await ids(list_page, memory, FactFilter(scope="global"), lineage) == {plain}
    assert await ids(list_page, memory, FactFilter(subject="An"), lineage) == set()


async def test_by_time(memory, lineage, clock):
    start = clock()
    (first,) = await store_facts(memory, lineage, 1)
    clock.advance(days=1)
    (second,) = await store_facts(memory, lineage, 1, predicate="owns")
    day = start + timedelta(days=1)
    for wanted, stored in (
        (PageRequest(created_after=day), {second}),
        (PageRequest(created_before=day), {first}),
        (PageRequest(created_after=start, created_before=day), {first}),
        (PageRequest(created_after=day, created_before=day), set()),
    ):
        assert await ids(list_page, memory, FactFilter(), lineage, wanted) == stored


async def test_a_fact_is_shown_with_its_confidence_now_and_an_excerpt(memory, lineage, clock):
    await store_facts(memory, lineage, 1, content="long " * 1000)
    clock.advance(days=30)
    (fact,) = (await list_page(memory, FactFilter(), PageRequest(), lineage)).items
    assert fact["effective_confidence"] == pytest.approx(0.7866, abs=1e-4)
    assert len(fact["content"]) == 2000
    assert fact["content_length"] == 4999
    assert "embedding" not in fact


async def test_looking_is_not_a_use(memory, lineage):
    await store_facts(memory, lineage, 1)
    for _ in range(2):
        (fact,) = (await list_page(memory, FactFilter(), PageRequest(), lineage)).items
        assert fact["reference_count"] == 0


async def test_rules(memory, lineage, owner):
    stored = [
        (await remember.store_rule(memory, NewRule(f"rule {n}", tags=(f"t{n}",)), lineage)).id
        for n in range(3)
    ]
    await forget_memory(memory, "rule", stored[0], lineage)
    await owner.execute("update rules set maturity = 'proven' where id = $1", stored[1])
    for where, found in (
        (RuleFilter(state="forgotten"), {stored[0]}),
        (RuleFilter(state="active"), set(stored[1:])),
        (RuleFilter(state="fading"), set()),
        (RuleFilter(maturity="proven"), {stored[1]}),
        (RuleFilter(tag="t2"), {stored[2]}),
        (RuleFilter(scope="kitchen"), set()),
    ):
        assert await ids(list_page, memory, where, lineage) == found
    pages = await walk(list_page, memory, RuleFilter(), lineage, 2)
    assert [len(page) for page in pages] == [2, 1]


async def test_episodes(memory, lineage, owner):
    session = UUID(int=7)
    one, two, three = [
        (
            await remember.store_episode(
                memory, NewEpisode(f"e{n}", butler, session_id=session if n else None), lineage
            )
        ).id
        for n, butler in enumerate(("general", "general", "kitchen"))
    ]
    await forget_memory(memory, "episode", one, lineage)
    await owner.execute(
        "update episodes set consolidation_status = 'dead_letter', dead_letter_reason = 'x' "
        "where id = $1", two,
    )  # fmt: skip
    for where, found in (
        (EpisodeFilter(state="expired"), {one}),
        (EpisodeFilter(state="active"), {two, three}),
        (EpisodeFilter(status="dead_letter"), {two}),
        (EpisodeFilter(status="pending"), {one, three}),
        (EpisodeFilter(butler="kitchen"), {three}),
        (EpisodeFilter(session_id=session), {two, three}),
    ):
        assert await ids(list_page, memory, where, lineage) == found


async def test_entities(memory, lineage):
    ann = await entities.create_entity(memory, "Ann", "person", ["Annie%"], None, lineage)
    anna = await entities.create_entity(memory, "Anna", "person", None, None, lineage)
    acme = await entities.create_entity(memory, "Acme", "organization", None, None, lineage)
    await store_facts(memory, lineage, 2, entity_id=anna, predicate="likes")
    await merge_entities(memory, anna, ann, lineage)
    for where, found in (
        (EntityFilter(state="merged"), {anna}),
        (EntityFilter(state="active"), {ann, acme}),
        (EntityFilter(entity_type="organization"), {acme}),
        (EntityFilter(name="ANN"), {ann, anna}),
        (EntityFilter(name="ie%"), {ann}),
        (EntityFilter(name="%"), {ann}),
    ):
        assert await ids(list_page, memory, where, lineage) == found
    shown = (await list_page(memory, EntityFilter(name="Annie%"), PageRequest(), lineage)).items
    assert shown[0]["active_facts"] == 1


async def test_activity_newest_first_and_by_pages(memory, lineage):
    (fact,) = await store_facts(memory, lineage, 1)
    for _ in range(3):
        await feedback.confirm_memory(memory, "fact", fact, lineage)
    first = await recent_activity(memory, 3, None, lineage)
    assert [event["event_type"] for event in first.items] == ["fact_confirmed"] * 3
    second = await recent_activity(memory, 3, first.next_cursor, lineage)
    assert [event["event_type"] for event in second.items] == ["fact_created"]
    assert second.next_cursor is None
    assert second.items[0]["memory_id"] == str(fact)
    assert second.items[0]["request_id"] == lineage.request_id


async def test_activity_after_an_event_is_what_happened_since(memory, lineage):
    (fact,) = await store_facts(memory, lineage, 1)
    (seen,) = (await recent_activity(memory, 1, None, lineage)).items
    assert (await activity_after(memory, seen["id"], 10, lineage)).items == []
    await feedback.confirm_memory(memory, "fact", fact, lineage)
    await forget_memory(memory, "fact", fact, lineage)
    since = await activity_after(memory, seen["id"], 10, lineage)
    assert [e["event_type"] for e in since.items] == ["fact_retracted", "fact_confirmed"]
    part = await activity_after(memory, seen["id"], 1, lineage)
    assert [e["event_type"] for e in part.items] == ["fact_confirmed"]
    rest = await activity_after(memory, part.next_cursor, 1, lineage)
    assert [e["event_type"] for e in rest.items] == ["fact_retracted"]


@pytest.mark.contract("L1")
async def test_another_tenant_sees_and_infers_nothing(memory, lineage, stranger):
    await store_facts(memory, lineage, 3)
    await remember.store_rule(memory, NewRule("rule"), lineage)
    await remember.store_episode(memory, NewEpisode("episode", "general"), lineage)
    await entities.create_entity(memory, "Ann", "person", None, None, lineage)
    for browse, where in (
        (list_page, FactFilter()),
        (list_page, RuleFilter()),
        (list_page, EpisodeFilter()),
        (list_page, EntityFilter()),
    ):
        assert await ids(browse, memory, where, stranger) == set()
        cursor = (await browse(memory, where, PageRequest(1), lineage)).next_cursor
        assert await ids(browse, memory, where, stranger, PageRequest(5, cursor)) == set()
    assert (await recent_activity(memory, 10, None, stranger)).items == []
    theirs = (await recent_activity(memory, 1, None, lineage)).items[0]["id"]
    unknown = str(UUID(int=99))
    for event in (theirs, unknown):
        with pytest.raises(InvalidInput, match=f"cursor: found {event}; valid is the id of an"):
            await recent_activity(memory, 10, event, stranger)
        with pytest.raises(InvalidInput, match=f"after: found {event}; valid is the id of an"):
            await activity_after(memory, event, 10, stranger)


@pytest.mark.parametrize(
    ("where", "field"),
    [
        (FactFilter(state="fresh"), "state"),
        (FactFilter(permanence="eternal"), "permanence"),
        (FactFilter(entity_id="x"), "entity_id"),
        (FactFilter(subject="s" * 201), "subject"),
        (FactFilter(tag=" "), "tag"),
    ],
)
async def test_a_filter_that_cannot_match_is_refused_by_name(memory, lineage, where, field):
    with pytest.raises(InvalidInput, match=f"^{field}: found"):
        await list_page(memory, where, PageRequest(), lineage)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (PageRequest(0), "limit"),
        (PageRequest(101), "limit"),
        (PageRequest(cursor=""), "cursor"),
        (PageRequest(cursor="not a cursor"), "cursor"),
        (PageRequest(cursor="ü" * 10), "cursor"),
        (PageRequest(cursor="YWJj" * 100), "cursor"),
    ],
)
async def test_a_page_that_cannot_be_is_refused_by_name(memory, lineage, wanted, field):
    with pytest.raises(InvalidInput, match=f"^{field}: found"):
        await list_page(memory, FactFilter(), wanted, lineage)


async def test_a_time_without_offset_is_refused(memory, lineage, clock):
    naive = clock().replace(tzinfo=None)
    with pytest.raises(InvalidInput, match="^created_after: found"):
        await list_page(memory, FactFilter(), PageRequest(created_after=naive), lineage)


def test_a_cursor_names_its_place_and_no_other_text_does(clock):
    place = RowPosition(clock(), UUID(int=3))
    cursor = cursors.encode(place)
    assert cursors.decode(cursor) == place
    assert cursors.decode(cursors.encode(replace(place, id=UUID(int=4)))) != place
    with pytest.raises(InvalidInput):
        cursors.decode(cursor + "=")
