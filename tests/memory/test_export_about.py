"""What is exported of one person: all that an erasure would find, and enough to import it."""

import json
from uuid import UUID

import pytest

from butlers.errors import Conflict, NotFound
from butlers.memory.flows import entities, entity_merge, portable, remember
from butlers.memory.flows.erase import preview
from butlers.memory.flows.history import verify_events
from butlers.memory.flows.portable import ImportLine
from butlers.memory.model import NewEpisode, NewFact, NewRule
from butlers.memory.policy.erasure import ErasureRequest
from memory.whole_store import empty, fill


async def exported(memory, lineage, about):
    selection = await portable.find_about(memory, about, lineage)
    return [
        (kind, json.loads(row))
        async for kind, row in portable.export_found(memory, selection, lineage)
    ]


def of_kind(rows, wanted):
    return [row for kind, row in rows if kind == wanted]


@pytest.mark.parametrize("about", ["Ida", "mrs idasen", "id"])
async def test_a_person_by_name_alias_or_id_is_exported_with_history_and_all_that_names_them(
    memory, lineage, owner, clock, about
):
    kept = await fill(memory, lineage, owner, clock)
    holiday = NewEpisode("Holidays in Idaho", "general")
    await remember.store_episode(memory, holiday, lineage)
    erased = await preview(memory, ErasureRequest(about="Ida"), lineage)
    rows = await exported(memory, lineage, str(kept["ida"]) if about == "id" else about)
    ids = {row.get("id") or row.get("episode_id") for _, row in rows}
    assert {id for kind, id in erased.found if kind != "predicate"} <= ids
    assert set(erased.events) <= ids
    said = {row["content"]: row["validity"] for row in of_kind(rows, "fact")}
    assert (said["Rome"], said["Milan"]) == ("superseded", "active")
    assert "eats" in {row["predicate"] for row in of_kind(rows, "fact")}  # drawn from her episode
    assert {row["content"] for row in of_kind(rows, "rule")} >= {"Greet Ida first"}
    assert of_kind(rows, "link") and of_kind(rows, "conflict") and of_kind(rows, "proposal")
    assert of_kind(rows, "binned_episode") and of_kind(rows, "rule_application")
    # Acme names her in its metadata; nothing names her in these.
    assert {row["canonical_name"] for row in of_kind(rows, "entity")} >= {"Ida", "Acme"}
    assert not {str(kept["flat"])} & ids
    assert holiday.content not in {row["content"] for row in of_kind(rows, "episode")}


async def test_the_export_of_a_person_can_be_imported_by_itself(memory, lineage, owner, clock):
    await fill(memory, lineage, owner, clock)
    before = await exported(memory, lineage, "Ida")
    await empty(owner)
    lines = [
        ImportLine(number, kind, row, json.dumps(row))
        for number, (kind, row) in enumerate(before, 2)
    ]
    brought = await portable.bring(memory, lines, lineage)
    assert sum(brought.stored.values()) == len(before)
    assert (await verify_events(memory, lineage))["intact"]
    assert await exported(memory, lineage, "Ida") == before


async def test_what_a_memory_of_theirs_rests_on_comes_with_it(memory, lineage):
    """Its source episode and the entities of others, so that no reference dangles."""
    source = await remember.store_episode(
        memory, NewEpisode("She moved there in May.", "general"), lineage
    )
    bob = await entities.create_entity(memory, "Bob", "person", None, None, lineage)
    sister = NewFact("Bob", "sister", "is Ida", entity_id=bob, source_episode_id=source.id)
    await remember.store_fact(memory, sister, lineage)
    await remember.store_fact(memory, NewFact("Bob", "drinks", "tea", entity_id=bob), lineage)
    await remember.store_rule(memory, NewRule("Ask idas sister"), lineage)
    rows = await exported(memory, lineage, "Ida")
    assert [row["content"] for row in of_kind(rows, "fact")] == ["is Ida"]
    assert [row["content"] for row in of_kind(rows, "episode")] == ["She moved there in May."]
    assert [row["canonical_name"] for row in of_kind(rows, "entity")] == ["Bob"]
    assert of_kind(rows, "rule") != []


async def test_a_name_that_several_have_is_refused_with_who_they_are(memory, lineage):
    tall = await entities.create_entity(memory, "Ann Tall", "person", ["Ann"], None, lineage)
    short = await entities.create_entity(memory, "Ann", "person", None, None, lineage)
    ship = await entities.create_entity(memory, "Annie", "other", ["ANN"], None, lineage)
    with pytest.raises(Conflict, match="3 have the name 'ann'") as refused:
        await portable.find_about(memory, "ann", lineage)
    for id, name in ((tall, "Ann Tall, person"), (short, "Ann, person"), (ship, "Annie, other")):
        assert f"{name}: {id}" in str(refused.value)
    found = await portable.find_about(memory, str(tall), lineage)
    assert set(found.names) == {"Ann Tall", "Ann"}

    for other in (tall, ship):
        await entity_merge.merge_entities(memory, other, short, lineage)
    merged = await portable.find_about(memory, "ann", lineage)
    assert set(merged.names) == {"Ann", "Ann Tall", "Annie"}


@pytest.mark.parametrize("about", ["Nobody", str(UUID(int=7))])
async def test_who_is_not_known_is_not_exported(memory, lineage, stranger, about):
    await remember.store_fact(memory, NewFact("Nobody", "is", "there"), stranger)
    with pytest.raises(NotFound, match="about: nothing names|there is no entity"):
        await portable.find_about(memory, about, lineage)
