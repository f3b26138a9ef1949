"""A fact is about whom its subject names: found, brought together, and taken apart again."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from butlers.memory.flows import entities, remember, session_parts, undo
from butlers.memory.flows.batch import store_batch
from butlers.memory.flows.consolidation.answer import claim_episodes, submit
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.entity_merge import merge_entities
from butlers.memory.flows.undo_plan import UndoSource
from butlers.memory.model import Lineage, NewEpisode, NewFact, Origin, Trust
from memory.audit_stream import event_types
from memory.consolidation_stories import know, tell
from memory.index import differences
from memory.scripted_model import ScriptedModel, answer, fact

PERSON = Lineage("acme", "cli", origin=Origin.OPERATOR)


async def store(memory, lineage, *key, **more):
    """What the teller of a fact is told."""
    return (await remember.store_fact(memory, NewFact(*key, **more), lineage)).as_dict()


async def person(memory, lineage, name, *aliases, **metadata):
    return await entities.create_entity(memory, name, "person", aliases, metadata, lineage)


async def facts(owner, *, active=True):
    rows = await owner.fetch(
        "select subject, predicate, content, (select canonical_name from entities e "
        "where e.id = f.entity_id) as about from facts f "
        "where not $1 or validity = 'active' order by created_at, id",
        active,
    )
    return [tuple(row) for row in rows]


async def everybody(owner):
    rows = await owner.fetch("select canonical_name, entity_type from entities order by 1, 2")
    return [tuple(row) for row in rows]


@pytest.mark.contract("L34")
async def test_every_way_of_storing_finds_the_one_entity_that_is_named(memory, lineage, owner):
    ann = await person(memory, lineage, "Ann Weber", "Ann", scope="global")
    told = await store(memory, lineage, "ANN", "drinks", "tea")
    assert (told["entity_id"], told["anchored"]) == (ann, True)
    given = await store(memory, lineage, "Ann", "eats", "rice", entity_id=ann)
    assert "anchored" not in given
    (batched,) = (await store_batch(memory, [NewFact("Ann", "age", "36")], lineage)).results
    assert batched.as_dict()["entity_id"] == ann
    part = session_parts.NewPart(
        "s1", None, "2026-01-10", NewEpisode("said", "general"), [NewFact("ann", "plays", "chess")]
    )
    await session_parts.store_part(memory, part, lineage)
    await tell(memory, lineage, "Ann sings alto", butler="health")
    said = answer(new_facts=[fact("Ann", "sings", "alto")])
    await run_consolidation(memory, ScriptedModel(said), lineage)
    rows = await owner.fetch("select subject, scope from facts where entity_id = $1", ann)
    assert sorted(map(tuple, rows)) == [
        ("ANN", "global"), ("Ann", "global"), ("Ann", "global"), ("Ann", "global"),
        ("ann", "global"),
    ]  # fmt: skip
    assert await event_types(owner, given["id"]) == ["fact_created"]


@pytest.mark.contract("L34")
async def test_of_several_namesakes_none_is_taken_and_the_likeliest_is_told(memory, lineage, owner):
    baker = await person(memory, lineage, "Ann Berg", "Ann")
    pilot = await person(memory, lineage, "Ann")
    await know(memory, lineage, "she", "job", "bakes sourdough bread", entity_id=baker)
    told = await store(memory, lineage, "ann", "bakery", "bakes sourdough bread in Oslo")
    best, other = told["entity_candidates"]
    assert {best["entity_id"], other["entity_id"]} == {str(baker), str(pilot)}
    assert told["margin"] == round(best["score"] - other["score"], 4) > 0
    assert "entity_id" not in told and (await facts(owner))[-1][-1] is None


@pytest.mark.contract("L34", "L32")
async def test_who_reads_episodes_is_shown_whom_they_name_and_may_say_who_is_meant(
    memory, lineage, owner
):
    weber = await person(memory, lineage, "Jonas Weber", "Jonas", scope="global")
    await person(memory, lineage, "Jonas Kahn", "Jonas")
    await person(memory, lineage, "Nobody Else")
    for text in ("Jonas Weber came; Jonas likes tea, Bea likes rum", "Jo plays chess with Jonas"):
        await tell(memory, lineage, text, butler="health")
    claim = await claim_episodes(memory, 1, lineage)
    shown = dict(re.findall(r'<entity id="(\d+)" type="person" also="Jonas">(.*?)</', claim.prompt))
    assert sorted(shown.values()) == ["Jonas Kahn", "Jonas Weber"]
    number = next(int(one) for one, name in shown.items() if name == "Jonas Weber")
    said = [fact(who, "likes", what, entity_id=number)
            for who, what in (("Jonas", "tea"), ("Bea", "rum"))]  # fmt: skip
    report = await submit(memory, claim.claim_id, {"new_facts": said}, lineage)
    assert (report.facts_created, report.errors) == (2, [])

    def answered(prompt: str) -> str:
        (number,) = re.findall(r'<entity id="(\d+)"[^>]*>Jonas Weber<', prompt)
        return answer(new_facts=[fact("Jo", "plays", "chess", entity_id=int(number))])

    await run_consolidation(memory, ScriptedModel(answered), lineage)
    rows = await owner.fetch("select subject, scope, entity_id from facts order by content")
    assert [tuple(row) for row in rows] == [
        ("Jo", "global", weber), ("Bea", "health", None), ("Jonas", "global", weber),
    ]  # fmt: skip


@pytest.mark.contract("L34", "L2")
async def test_an_entity_that_comes_to_bear_a_name_takes_what_was_said_of_it(
    memory, lineage, owner, clock
):
    """The surer one of two that say otherwise stays, whoever's; nothing is left behind."""
    for content in ("Rome", "Oslo"):
        await know(memory, lineage, "Ann", "city", content)
    await know(memory, lineage, "ann", "city", "Bonn")
    clock.advance(days=30)
    kept = await know(memory, lineage, "ANN", "city", "Paris")
    ann = await person(memory, lineage, "Ann")
    assert await facts(owner) == [("ANN", "city", "Paris", "Ann")]
    assert len({about for *_, about in await facts(owner, active=False)}) == 1
    lost = await owner.fetch(
        "select f.content from memory_links l join facts f on f.id = l.target_id "
        "where l.relation = 'supersedes' and l.source_id = $1", kept
    )  # fmt: skip
    assert "Oslo" in {row["content"] for row in lost}
    told = await owner.fetchval(
        "select count(*) from memory_events where event_type = 'fact_anchored' "
        "and payload ->> 'entity_id' = $1", str(ann)
    )  # fmt: skip
    assert told == 4
    # A new alias, and a merge, bring what was said under that name.
    await know(memory, lineage, "Nan", "likes", "tea")
    await entities.update_entity(memory, ann, lineage, aliases=["Nan"])
    place = await entities.create_entity(memory, "Annecy", "place", [], {}, lineage)
    twin = await entities.create_entity(memory, "Annecy", "other", [], {}, lineage)
    await know(memory, lineage, "Annecy", "lake", "deep")
    await merge_entities(memory, twin, place, lineage)
    assert [about for *_, about in await facts(owner)] == ["Ann", "Ann", "Annecy"]
    assert await differences(owner) == []


async def test_only_what_holds_at_once_is_at_odds(memory, lineage, owner):
    """What held before stays beside what holds now; what is still held gives way from then on."""
    old = await know(memory, lineage, "Ann", "city", "Rome")
    past = await know(memory, lineage, "ann", "city", "Bonn")
    ends = datetime(2020, 1, 1, tzinfo=UTC)
    await owner.execute("update facts set valid_to = $2 where id = $1", past, ends)
    await owner.execute("update facts set valid_from = $2 where id = $1", old, ends)
    ann = await person(memory, lineage, "Ann")
    now = await know(memory, lineage, "Annie", "city", "Oslo", confidence=0.5)
    begins = datetime(2025, 1, 1, tzinfo=UTC)
    await owner.execute("update facts set valid_from = $2 where id = $1", now, begins)
    await owner.execute("update facts set confidence = 0.4 where id = $1", old)
    await entities.update_entity(memory, ann, lineage, aliases=["Annie"])
    rows = await owner.fetch("select id, validity, valid_from, valid_to from facts order by id")
    assert [tuple(row) for row in rows] == [
        (old, "superseded", ends, begins),
        (past, "active", None, ends),
        (now, "active", begins, None),
    ]


@pytest.mark.parametrize(
    ("subject", "predicates", "kind"),
    [
        ("Zoe", ("birthday", "note"), "person"),
        ("Jonas Weber", ("desk", "floor"), "other"),
        ("Dr. Li", ("hours", "address"), "person"),
        ("Blau & Söhne GmbH", ("contact", "address"), "organization"),
        ("PostgreSQL", ("version", "port"), "other"),
        ("Phoenix", ("status", "owner"), None),
        ("user", ("birthday", "likes"), None),
        ("Project", ("likes", "wife"), None),
        ("Wife", ("birthday", "likes"), None),
        ("API", ("owner", "likes"), None),
        ("src/main.py", ("owner", "likes"), None),
        ("Weekly Meeting", ("day", "room"), None),
        ("Peanut Butter", ("brand", "shelf"), None),
        ("The release is late", ("why", "likes"), None),
        ("She", ("age", "likes"), None),
    ],
)
@pytest.mark.contract("L43")
async def test_a_second_fact_makes_an_entity_of_a_name(
    memory, lineage, owner, subject, predicates, kind
):
    first, second = predicates
    alone = await store(memory, lineage, subject, first, "one")
    again = await store(memory, lineage, subject, first, "another")
    assert not {"anchored", "entity_created"} & (alone.keys() | again.keys())
    told = await store(memory, lineage, subject, second, "two")
    assert told.get("entity_created", False) is (kind is not None)
    assert await everybody(owner) == ([(subject, kind)] if kind else [])
    assert {about for *_, about in await facts(owner, active=False)} == {kind and subject}


@pytest.mark.contract("L52")
async def test_what_is_less_trusted_makes_no_entity_and_moves_nothing_surer(memory, lineage, owner):
    low = replace(lineage, actor="token:low", ceiling=Trust.LOW)
    await know(memory, lineage, "Zoe", "birthday", "May")
    assert "anchored" not in await store(memory, low, "Zoe", "likes", "tea")
    assert await everybody(owner) == []
    await know(memory, lineage, "Zed", "likes", "tea")
    await know(memory, lineage, "zed", "likes", "rum")
    zed = await person(memory, low, "Zed")
    assert await facts(owner) == [
        ("Zoe", "birthday", "May", None), ("Zoe", "likes", "tea", None),
        ("Zed", "likes", "tea", None), ("zed", "likes", "rum", None),
    ]  # fmt: skip
    assert (await entities.get_entity(memory, zed, lineage))["canonical_name"] == "Zed"
    # Nor is what others say of the name linked to it later.
    assert "anchored" not in await store(memory, lineage, "Zed", "city", "Oslo")


async def test_an_entity_that_came_by_itself_is_claimed_by_whoever_creates_it(
    memory, lineage, owner
):
    await know(memory, lineage, "Phoenix Rising", "status", "late")
    told = await store(memory, lineage, "Phoenix Rising", "floor", "two")
    claimed = await person(memory, lineage, "Phoenix Rising", "PR", age=3)
    assert claimed == told["entity_id"]
    shown = await entities.get_entity(memory, claimed, lineage)
    assert (shown["entity_type"], shown["aliases"]) == ("person", ["PR"])
    other = await entities.create_entity(memory, "Phoenix Rising", "place", [], {}, lineage)
    assert other != claimed


async def test_undoing_a_source_lets_go_of_what_it_brought_together(memory, lineage, owner):
    spy = Lineage("acme", "token:spy")
    await know(memory, lineage, "Zoe", "birthday", "May")
    await know(memory, lineage, "zoe", "birthday", "June", confidence=0.5)
    before = await facts(owner)
    await know(memory, spy, "Zoe", "likes", "rum")
    await know(memory, lineage, "Zoe", "plays", "chess")
    assert await everybody(owner) == [("Zoe", "person")]
    assert len(await facts(owner)) == 3
    await undo.undo_source(memory, UndoSource(token="spy"), PERSON)
    assert await facts(owner) == [*before, ("Zoe", "plays", "chess", None)]
    assert await everybody(owner) == []
    assert await differences(owner) == []


async def test_writers_of_one_name_at_once_leave_one_entity_and_one_fact_of_a_key(
    memory, lineage, owner
):
    """Facts, entities and aliases of one name, in any order: none waits for ever, none is lost."""
    for number in range(6):
        name, city = f"Zoe Q{'xyzuvw'[number]}", "city"
        tries = [
            store(memory, lineage, name, city, "Oslo"),
            store(memory, lineage, name.lower(), city, "Rome"),
            store(memory, lineage, name, "age", "36"),
            store_batch(
                memory, [NewFact(name, "likes", "tea"), NewFact(name, city, "Bonn")], lineage
            ),
            person(memory, lineage, name),
            store(memory, lineage, name.upper(), "age", "37"),
        ]
        done = await asyncio.gather(*tries, return_exceptions=True)
        assert [one for one in done if isinstance(one, Exception)] == []
        (about,) = await owner.fetch(
            "select array_agg(distinct entity_id) as ids, count(*) filter (where validity = "
            "'active') as active from facts where lower(subject) = $1", name.lower()
        )  # fmt: skip
        assert (len(about["ids"]), about["ids"][0] is None, about["active"]) == (1, False, 3)
