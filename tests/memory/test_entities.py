"""Creating, reading and changing entities."""

import asyncio
import json
import uuid

import pytest

from butlers.errors import Conflict, InvalidInput, NotFound
from butlers.memory.flows.entities import create_entity, get_entity, update_entity
from butlers.memory.flows.entity_merge import merge_entities

NOBODY = uuid.UUID(int=0)


def ann(memory, lineage, *, aliases=(), metadata=None):
    return create_entity(memory, "Ann", "person", aliases, metadata, lineage)


async def events_of(owner, entity_id):
    rows = await owner.fetch(
        "select event_type, actor, request_id, tenant_id, memory_type, payload from memory_events "
        "where memory_id = $1 order by sequence",
        entity_id,
    )
    return [{**row, "payload": json.loads(row["payload"])} for row in rows]


@pytest.mark.contract("R16.1")
async def test_an_entity_is_stored_whole(memory, lineage, owner, clock):
    entity_id = await ann(memory, lineage, aliases=["Annie"], metadata={"role": "cook"})
    row = await owner.fetchrow("select * from entities")
    assert {**row, "metadata": json.loads(row["metadata"])} == {
        "id": entity_id,
        "tenant_id": "acme",
        "canonical_name": "Ann",
        "entity_type": "person",
        "aliases": ["Annie"],
        "metadata": {"role": "cook"},
        "created_at": clock.now,
        "updated_at": clock.now,
        "trust": 4,
    }


@pytest.mark.contract("R16.1")
async def test_aliases_and_metadata_are_empty_unless_given(memory, lineage):
    entity_id = await create_entity(memory, "Ann", "person", None, None, lineage)
    found = await get_entity(memory, entity_id, lineage)
    assert (found["aliases"], found["metadata"]) == ([], {})


async def test_get_shows_what_was_stored(memory, lineage, clock):
    entity_id = await ann(memory, lineage, aliases=["Annie"], metadata={"role": "cook"})
    assert await get_entity(memory, entity_id, lineage) == {
        "entity_id": str(entity_id),
        "canonical_name": "Ann",
        "entity_type": "person",
        "aliases": ["Annie"],
        "metadata": {"role": "cook"},
        "created_at": clock.now,
        "updated_at": clock.now,
    }
    assert await get_entity(memory, NOBODY, lineage) is None


async def test_creation_is_recorded(memory, lineage, owner):
    entity_id = await ann(memory, lineage, aliases=["Annie"])
    assert await events_of(owner, entity_id) == [
        {
            "event_type": "entity_created",
            "actor": "tester",
            "request_id": "request-1",
            "tenant_id": "acme",
            "memory_type": "entity",
            "payload": {
                "canonical_name": "Ann",
                "entity_type": "person",
                "aliases": ["Annie"],
                "metadata": {},
            },
        }
    ]


@pytest.mark.contract("R16.2")
async def test_a_taken_name_is_refused_and_named(memory, lineage, owner):
    first = await ann(memory, lineage)
    with pytest.raises(Conflict, match=f"'Ann' of type 'person' exists already: it is {first}"):
        await ann(memory, lineage)
    with pytest.raises(ValueError):
        await create_entity(memory, "  Ann\n", "person", None, None, lineage)
    assert await owner.fetchval("select count(*) from memory_events") == 1


@pytest.mark.contract("R16.2")
async def test_the_same_name_may_be_of_another_type(memory, lineage, owner):
    await ann(memory, lineage)
    await create_entity(memory, "Ann", "place", None, None, lineage)
    assert await owner.fetchval("select count(*) from entities") == 2


@pytest.mark.contract("R16.2")
async def test_of_many_creators_at_once_one_wins(memory, lineage, owner):
    tries = await asyncio.gather(*(ann(memory, lineage) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(one, uuid.UUID) for one in tries) == 1
    assert sum(isinstance(one, Conflict) for one in tries) == 7
    assert await owner.fetchval("select count(*) from entities") == 1


@pytest.mark.contract("R16.2")
async def test_a_name_that_was_merged_away_leads_to_the_survivor(memory, lineage):
    old = await ann(memory, lineage)
    new = await create_entity(memory, "Ann Lee", "person", None, None, lineage)
    await merge_entities(memory, old, new, lineage)
    with pytest.raises(Conflict, match=f"merged into {new}; use {new}"):
        await ann(memory, lineage)


@pytest.mark.contract("R16.3")
async def test_an_unknown_type_lists_the_valid_ones(memory, lineage):
    with pytest.raises(ValueError, match="'robot'; valid are person, organization, place, other"):
        await create_entity(memory, "R2", "robot", None, None, lineage)


@pytest.mark.contract("R16.4")
async def test_update_replaces_name_and_aliases_and_merges_metadata(memory, lineage, clock):
    entity_id = await ann(memory, lineage, aliases=["a", "b"], metadata={"x": 1, "y": {"z": 1}})
    born = clock.now
    clock.advance(days=1)
    updated = await update_entity(
        memory,
        entity_id,
        lineage,
        canonical_name="Anna",
        aliases=["c"],
        metadata={"y": {"w": 2}, "n": None},
    )
    assert updated == {
        "entity_id": str(entity_id),
        "canonical_name": "Anna",
        "entity_type": "person",
        "aliases": ["c"],
        "metadata": {"x": 1, "y": {"w": 2}, "n": None},
        "created_at": born,
        "updated_at": clock.now,
    }
    assert await get_entity(memory, entity_id, lineage) == updated


@pytest.mark.contract("R16.4")
async def test_what_is_not_given_stays(memory, lineage, clock):
    entity_id = await ann(memory, lineage, aliases=["a"], metadata={"x": 1})
    clock.advance(days=1)
    updated = await update_entity(memory, entity_id, lineage, aliases=[])
    assert (updated["canonical_name"], updated["aliases"], updated["metadata"]) == (
        "Ann",
        [],
        {"x": 1},
    )
    assert updated["updated_at"] == clock.now


async def test_an_update_is_recorded_with_before_and_after(memory, lineage, owner):
    entity_id = await ann(memory, lineage, metadata={"x": 1, "y": 2})
    await update_entity(
        memory, entity_id, lineage, canonical_name="Anna", metadata={"x": 3, "z": 4}
    )
    created, updated = await events_of(owner, entity_id)
    assert updated["event_type"] == "entity_updated"
    assert updated["payload"] == {
        "from": {"canonical_name": "Ann", "metadata": {"x": 1}},
        "to": {"canonical_name": "Anna", "metadata": {"x": 3, "z": 4}},
    }


async def test_updates_at_once_lose_nothing(memory, lineage):
    entity_id = await ann(memory, lineage)
    await asyncio.gather(
        *(update_entity(memory, entity_id, lineage, metadata={f"k{i}": i}) for i in range(8))
    )
    found = await get_entity(memory, entity_id, lineage)
    assert found["metadata"] == {f"k{i}": i for i in range(8)}


@pytest.mark.contract("R16.2", "R16.4")
async def test_a_rename_to_a_taken_name_is_refused(memory, lineage):
    entity_id = await ann(memory, lineage)
    other = await create_entity(memory, "Bob", "person", None, None, lineage)
    with pytest.raises(Conflict, match=f"'Bob' of type 'person' exists already: it is {other}"):
        await update_entity(memory, entity_id, lineage, canonical_name="Bob")
    await update_entity(memory, entity_id, lineage, canonical_name="Ann", aliases=["Bob"])
    assert (await get_entity(memory, entity_id, lineage))["canonical_name"] == "Ann"


async def test_renames_to_one_name_at_once_leave_one_bearer(memory, lineage, owner):
    ids = [await create_entity(memory, f"n{i}", "person", None, None, lineage) for i in range(6)]
    renames = (update_entity(memory, one, lineage, canonical_name="Ann") for one in ids)
    tries = await asyncio.gather(*renames, return_exceptions=True)
    assert sum(isinstance(one, Conflict) for one in tries) == 5
    assert sum(isinstance(one, dict) for one in tries) == 1


async def test_updates_that_cannot_be_done_are_refused(memory, lineage):
    entity_id = await ann(memory, lineage)
    other = await create_entity(memory, "Bob", "person", None, None, lineage)
    with pytest.raises(InvalidInput, match="give canonical_name, aliases or metadata"):
        await update_entity(memory, entity_id, lineage)
    with pytest.raises(NotFound, match="does not exist"):
        await update_entity(memory, NOBODY, lineage, aliases=[])
    await merge_entities(memory, entity_id, other, lineage)
    with pytest.raises(Conflict, match=f"was merged into {other}"):
        await update_entity(memory, entity_id, lineage, aliases=[])


@pytest.mark.contract("L1")
async def test_another_tenant_sees_nothing_and_may_use_the_same_name(memory, lineage, stranger):
    ours = await ann(memory, lineage)
    assert await get_entity(memory, ours, stranger) is None
    with pytest.raises(NotFound):
        await update_entity(memory, ours, stranger, canonical_name="Mine")
    theirs = await ann(memory, stranger, metadata={"theirs": True})
    assert (await get_entity(memory, ours, lineage))["metadata"] == {}
    assert (await get_entity(memory, theirs, stranger))["metadata"] == {"theirs": True}


@pytest.mark.parametrize("name", ["", " \n", "\x00", "x" * 201])
async def test_bad_names_are_refused(memory, lineage, name):
    with pytest.raises(InvalidInput, match="canonical_name: found .*200"):
        await create_entity(memory, name, "person", None, None, lineage)
    with pytest.raises(InvalidInput, match="aliases: found .*200"):
        await create_entity(memory, "Ann", "person", [name], None, lineage)


async def test_names_are_cleaned_composed_and_kept_once(memory, lineage):
    entity_id = await create_entity(
        memory,
        "Jose\u0301\x00  \n Núñez 🦄",
        "person",
        ["B", "a", "b", "A", "ÉCLAIR", "éclair"],
        None,
        lineage,
    )
    found = await get_entity(memory, entity_id, lineage)
    assert found["canonical_name"] == "José Núñez 🦄"
    assert found["aliases"] == ["B", "a", "ÉCLAIR"]


async def test_aliases_are_bounded(memory, lineage):
    await ann(memory, lineage, aliases=[f"a{i}" for i in range(100)])
    with pytest.raises(InvalidInput, match="aliases: found 101 of them; valid is at most 100"):
        await create_entity(memory, "Bob", "person", [f"a{i}" for i in range(101)], None, lineage)


def nested(levels):
    return {"x": nested(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({"merged_into": "x"}, "only a merge"),
        ({"merged\x00_into": "x"}, "only a merge"),
        ({"text": "x" * 20_000}, "bytes as JSON; valid is at most 20000"),
        ({"number": float("nan")}, "finite numbers"),
        ({"number": 10**5000}, "finite numbers"),
        ({"bytes": b"x"}, "found a bytes"),
        ({1: "x"}, "found a int"),
        (["x"], "found a list"),
        (nested(30), "20 levels"),
    ],
)
async def test_bad_metadata_is_refused(memory, lineage, owner, metadata, complaint):
    with pytest.raises(InvalidInput, match=f"metadata: .*{complaint}"):
        await ann(memory, lineage, metadata=metadata)
    assert await owner.fetchval("select count(*) from entities") == 0


@pytest.mark.contract("L22")
async def test_metadata_is_stored_without_what_the_database_cannot_hold(memory, lineage):
    metadata = {"a\x00": ["b\x00", {"c": "\ud800"}, 1.5, True, None]}
    entity_id = await ann(memory, lineage, metadata=metadata)
    found = await get_entity(memory, entity_id, lineage)
    assert found["metadata"] == {"a": ["b", {"c": "\ufffd"}, 1.5, True, None]}


async def test_metadata_cannot_grow_beyond_its_bound_by_updates(memory, lineage):
    entity_id = await ann(memory, lineage, metadata={"a": "x" * 15_000})
    with pytest.raises(InvalidInput, match="metadata: found .* bytes"):
        await update_entity(memory, entity_id, lineage, metadata={"b": "x" * 15_000})
    await update_entity(memory, entity_id, lineage, metadata={"a": "y" * 15_000})
