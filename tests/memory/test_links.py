"""Links between memories."""

import asyncio
import uuid

import pytest

from butlers.errors import InvalidInput, NotFound
from butlers.memory.flows import links, remember
from butlers.memory.model import NewEpisode, NewFact, NewRule, Relation
from memory.audit_stream import events, sizes


@pytest.fixture
async def ids(memory, lineage):
    """One memory of each kind."""
    episode = await remember.store_episode(memory, NewEpisode("Ann called", "general"), lineage)
    fact = await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    rule = await remember.store_rule(memory, NewRule("offer tea"), lineage)
    return {"episode": episode.id, "fact": fact.id, "rule": rule.id}


@pytest.mark.contract("R05.5")
async def test_a_link_is_stored_and_told(memory, lineage, owner, clock, ids):
    clock.advance(hours=1)
    added = await links.create_link(
        memory, "fact", str(ids["fact"]), "episode", ids["episode"], "derived_from", lineage
    )
    assert added is True
    link = dict(await owner.fetchrow("select * from memory_links"))
    assert link == {
        "tenant_id": "acme",
        "source_type": "fact",
        "source_id": ids["fact"],
        "target_type": "episode",
        "target_id": ids["episode"],
        "relation": "derived_from",
        "created_at": clock.now,
    }
    told = (await events(owner))[-1]
    assert (told["event_type"], told["memory_type"], told["memory_id"]) == (
        "link_created",
        "link",
        ids["fact"],
    )
    assert told["payload"] == {
        "source_type": "fact",
        "source_id": str(ids["fact"]),
        "target_type": "episode",
        "target_id": str(ids["episode"]),
        "relation": "derived_from",
    }


@pytest.mark.contract("R05.5")
@pytest.mark.parametrize("relation", list(Relation))
async def test_every_relation_can_be_stored(memory, lineage, owner, ids, relation):
    await links.create_link(
        memory, "rule", ids["rule"], "fact", ids["fact"], relation.value, lineage
    )
    assert await owner.fetchval("select relation from memory_links") == relation.value


@pytest.mark.contract("R05.5", "L19")
@pytest.mark.parametrize(
    ("source", "target", "relation", "refusal"),
    [
        ("fact", "rule", "causes", "relation: found 'causes'; valid are derived_from, supports, "
         "contradicts, supersedes, related_to"),
        ("note", "rule", "supports", "source_type: found 'note'; valid are episode, fact, rule"),
        ("fact", "entity", "supports", "target_type: found 'entity'; valid are episode, fact"),
        ("fact", "fact", "supports", "target_id: found .* the source itself"),
    ],
)  # fmt: skip
async def test_a_link_outside_the_vocabulary_is_refused(
    memory, lineage, owner, ids, source, target, relation, refusal
):
    before = await sizes(owner)
    ends = ids.get(source, uuid.uuid4()), ids.get(target, uuid.uuid4())
    with pytest.raises(InvalidInput, match=refusal):
        await links.create_link(memory, source, ends[0], target, ends[1], relation, lineage)
    assert await sizes(owner) == before


@pytest.mark.parametrize("end", ["source", "target"])
async def test_both_ends_must_be_the_tenants_own(memory, lineage, stranger, owner, ids, end):
    theirs = (await remember.store_rule(memory, NewRule("spy"), stranger)).id
    before = await sizes(owner)
    for foreign in (theirs, uuid.uuid4(), ids["fact"]):
        pair = [("rule", foreign), ("episode", ids["episode"])]
        (source, target) = pair if end == "source" else pair[::-1]
        with pytest.raises(NotFound, match=f"{end}_id: rule {foreign} does not exist"):
            await links.create_link(memory, *source, *target, "related_to", lineage)
    assert await sizes(owner) == before


@pytest.mark.contract("R26.2", "R05.5")
async def test_a_link_that_exists_is_left_as_it_is(memory, lineage, owner, ids):
    async def link():
        return await links.create_link(
            memory, "rule", ids["rule"], "fact", ids["fact"], "supports", lineage
        )

    at_once = await asyncio.gather(*(link() for _ in range(4)))
    assert sorted(at_once) == [False, False, False, True]
    before = await sizes(owner)
    assert await link() is False
    assert await sizes(owner) == before
    assert before["memory_links"] == 1
    assert [e["event_type"] for e in await events(owner)].count("link_created") == 1


@pytest.mark.contract("R26.1")
async def test_links_are_found_by_direction(memory, lineage, stranger, clock, ids):
    await links.create_link(
        memory, "rule", ids["rule"], "fact", ids["fact"], "derived_from", lineage
    )
    clock.advance(hours=1)
    await links.create_link(
        memory, "fact", ids["fact"], "episode", ids["episode"], "derived_from", lineage
    )

    async def ends(direction, caller=lineage):
        found = await links.get_links(memory, "fact", ids["fact"], direction, caller)
        return [(link["source_id"], link["target_id"]) for link in found]

    incoming = (str(ids["rule"]), str(ids["fact"]))
    outgoing = (str(ids["fact"]), str(ids["episode"]))
    assert await ends("outgoing") == [outgoing]
    assert await ends("incoming") == [incoming]
    assert await ends("both") == [incoming, outgoing]
    assert await ends("both", stranger) == []
    with pytest.raises(InvalidInput, match="direction: found 'up'; valid are outgoing, incoming"):
        await ends("up")
