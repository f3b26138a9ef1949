"""Merging two entities that turned out to be one."""

import asyncio
import json
import uuid
from dataclasses import asdict

import asyncpg
import pytest

from butlers.errors import Conflict, InvalidInput, NotFound
from butlers.memory.flows.entities import create_entity, get_entity, update_entity
from butlers.memory.flows.entity_merge import (
    MergeReport,
    merge_entities,
    preview_merge,
    unmerge_entities,
)
from butlers.memory.flows.remember import store_fact
from butlers.memory.model import Lineage, NewFact
from db.databases import until_waiting
from memory import audit_stream
from memory.index import differences

NOBODY = uuid.UUID(int=0)


@pytest.fixture
async def source(memory, lineage):
    metadata = {"phone": "1", "city": "Rome"}
    return await create_entity(memory, "Bob", "person", ["Bobby", "ROB"], metadata, lineage)


@pytest.fixture
async def target(memory, lineage):
    metadata = {"phone": "2", "age": 40}
    return await create_entity(memory, "Robert", "person", ["Rob"], metadata, lineage)


@pytest.fixture
def learn(memory, lineage, owner):
    """Stores a fact about an entity, as sure as wanted."""

    async def store(entity_id, predicate, content, *, confidence=1.0, scope="global"):
        new = NewFact("Bob", predicate, content, entity_id=entity_id, scope=scope)
        stored = await store_fact(memory, new, lineage)
        await owner.execute("update facts set confidence = $2 where id = $1", stored.id, confidence)
        return stored.id

    return store


@pytest.fixture
async def onlooker(worker_access):
    """Another connection, to hold locks and look at them."""
    connection = await asyncpg.connect(worker_access.owner_dsn)
    yield connection
    await connection.close()


async def fact(owner, fact_id):
    row = await owner.fetchrow(
        "select validity, entity_id, supersedes_id from facts where id = $1", fact_id
    )
    return tuple(row)


async def links(owner):
    rows = await owner.fetch("select source_id, relation, target_id from memory_links")
    return [tuple(row) for row in rows]


async def events(owner, event_type):
    rows = await owner.fetch(
        "select memory_type, memory_id, payload, actor, request_id from memory_events "
        "where event_type = $1 order by sequence",
        event_type,
    )
    return [{**row, "payload": json.loads(row["payload"])} for row in rows]


@pytest.mark.contract("R18.1")
async def test_facts_without_rivals_go_over_to_the_target(
    memory, lineage, owner, source, target, learn
):
    moved = await learn(source, "likes", "tea")
    elsewhere = await learn(source, "lives in", "Rome", scope="home")
    kept = await learn(target, "lives in", "Oslo", scope="work")
    report = await merge_entities(memory, source, target, lineage)
    for fact_id in (moved, elsewhere, kept):
        assert await fact(owner, fact_id) == ("active", target, None)
    assert (report.facts_repointed, report.facts_superseded) == (2, 0)
    assert await links(owner) == []


@pytest.mark.contract("R18.1")
async def test_past_facts_follow_too_and_rival_nothing(
    memory, lineage, owner, source, target, learn
):
    past = await learn(source, "likes", "tea")
    now = await learn(source, "likes", "coffee")
    gone = await learn(source, "owns", "a car")
    await owner.execute("update facts set validity = 'retracted' where id = $1", gone)
    kept = await learn(target, "owns", "a bike")
    report = await merge_entities(memory, source, target, lineage)
    assert await fact(owner, past) == ("superseded", target, None)
    assert await fact(owner, now) == ("active", target, past)
    assert await fact(owner, gone) == ("retracted", target, None)
    assert await fact(owner, kept) == ("active", target, None)
    assert (report.facts_repointed, report.facts_superseded) == (3, 0)


@pytest.mark.contract("R18.2", "L20")
async def test_a_surer_source_fact_replaces_the_targets(
    memory, lineage, owner, source, target, learn
):
    ours = await learn(source, "likes", "tea", confidence=0.9)
    theirs = await learn(target, "likes", "coffee", confidence=0.8)
    report = await merge_entities(memory, source, target, lineage)
    assert await fact(owner, ours) == ("active", target, theirs)
    assert await fact(owner, theirs) == ("superseded", target, None)
    assert await links(owner) == [(ours, "supersedes", theirs)]
    assert (report.facts_repointed, report.facts_superseded) == (1, 1)


@pytest.mark.contract("R18.2", "L20")
@pytest.mark.parametrize("confidence", [0.8, 0.7])
async def test_an_equally_or_less_sure_source_fact_gives_way(
    memory, lineage, owner, source, target, learn, confidence
):
    ours = await learn(source, "likes", "tea", confidence=confidence)
    theirs = await learn(target, "likes", "coffee", confidence=0.8)
    report = await merge_entities(memory, source, target, lineage)
    assert await fact(owner, ours) == ("superseded", target, None)
    assert await fact(owner, theirs) == ("active", target, ours)
    assert await links(owner) == [(theirs, "supersedes", ours)]
    assert (report.facts_repointed, report.facts_superseded) == (0, 1)


@pytest.mark.contract("R18.2", "R33.3")
async def test_many_conflicts_are_each_settled_and_recorded(
    memory, lineage, owner, source, target, learn
):
    expected = {}
    for i in range(6):
        ours = await learn(source, f"p{i}", "s", confidence=i / 10)
        theirs = await learn(target, f"p{i}", "t", confidence=0.25)
        winner, loser = (ours, theirs) if i / 10 > 0.25 else (theirs, ours)
        expected[loser] = winner
    report = await merge_entities(memory, source, target, lineage)
    assert (report.facts_repointed, report.facts_superseded) == (3, 6)
    superseded = await events(owner, "fact_superseded")
    never = ["2026-01-10T12:00:00+00:00"] * 2
    for one in superseded:
        assert one["payload"].pop("window") == {"from": [None, None], "to": never}
    assert {one["memory_id"]: one["payload"] for one in superseded} == {
        loser: {"from": "active", "to": "superseded", "superseded_by": str(winner)}
        for loser, winner in expected.items()
    }
    assert {one["memory_type"] for one in superseded} == {"fact"}
    for loser, winner in expected.items():
        assert await fact(owner, loser) == ("superseded", target, None)
        assert await fact(owner, winner) == ("active", target, loser)


@pytest.mark.contract("L20")
async def test_what_the_winner_replaced_before_stays_linked(
    memory, lineage, owner, source, target, learn
):
    old = await learn(target, "likes", "water")
    theirs = await learn(target, "likes", "coffee")
    ours = await learn(source, "likes", "tea")
    await merge_entities(memory, source, target, lineage)
    assert await fact(owner, theirs) == ("active", target, ours)
    assert sorted(await links(owner)) == sorted(
        [(theirs, "supersedes", old), (theirs, "supersedes", ours)]
    )


@pytest.mark.contract("L20")
async def test_a_link_of_another_kind_becomes_supersedes(
    memory, lineage, owner, source, target, learn
):
    ours, theirs = await learn(source, "likes", "tea"), await learn(target, "likes", "coffee")
    await owner.execute(
        "insert into memory_links "
        "(tenant_id, source_type, source_id, target_type, target_id, relation) "
        "values ('acme', 'fact', $1, 'fact', $2, 'contradicts')",
        theirs,
        ours,
    )
    await merge_entities(memory, source, target, lineage)
    assert await links(owner) == [(theirs, "supersedes", ours)]


@pytest.mark.contract("R18.3", "L20")
async def test_names_and_metadata_are_joined(memory, lineage, source, target, clock):
    clock.advance(hours=1)
    report = await merge_entities(memory, source, target, lineage)
    merged = await get_entity(memory, target, lineage)
    assert merged["canonical_name"] == "Robert"
    assert merged["aliases"] == ["Rob", "Bobby", "Bob"]
    assert merged["metadata"] == {"phone": "2", "age": 40, "city": "Rome"}
    assert merged["updated_at"] == clock.now
    assert report.aliases_added == 2


@pytest.mark.contract("R18.3")
async def test_names_the_target_bears_are_not_added_again(memory, lineage):
    source = await create_entity(memory, "bob", "person", ["BOBBY", "Ben", "ben"], {}, lineage)
    target = await create_entity(memory, "Bobby", "person", ["BOB"], {}, lineage)
    report = await merge_entities(memory, source, target, lineage)
    assert (await get_entity(memory, target, lineage))["aliases"] == ["BOB", "Ben"]
    assert report.aliases_added == 1


@pytest.mark.contract("R18.4")
async def test_the_source_becomes_a_tombstone(memory, lineage, source, target, learn, clock, owner):
    await learn(source, "likes", "tea")
    clock.advance(hours=1)
    await merge_entities(memory, source, target, lineage)
    buried = await get_entity(memory, source, lineage)
    assert buried["metadata"] == {"phone": "1", "city": "Rome", "merged_into": str(target)}
    assert buried["updated_at"] == clock.now
    assert await owner.fetchval("select count(*) from facts where entity_id = $1", source) == 0
    with pytest.raises(NotFound, match=f"merged into {target}"):
        await learn(source, "likes", "coffee")


@pytest.mark.contract("R18.5")
async def test_a_merge_is_recorded_once_with_what_it_did(
    memory, lineage, owner, source, target, learn
):
    await learn(source, "likes", "tea")
    await learn(source, "owns", "a car")
    await learn(target, "likes", "coffee")
    report = await merge_entities(memory, source, target, lineage)
    assert report == MergeReport(str(source), str(target), 1, 1, 2)
    (merged,) = await events(owner, "entity_merge")
    moved = merged["payload"].pop("moved")
    assert (len(moved["facts"]), len(moved["pairs"]), moved["aliases"]) == (2, 1, ["Bobby", "Bob"])
    assert [merged] == [
        {
            "memory_type": "entity",
            "memory_id": target,
            "actor": "tester",
            "request_id": "request-1",
            "payload": {
                "source_entity_id": str(source),
                "target_entity_id": str(target),
                "facts_repointed": 1,
                "facts_superseded": 1,
                "aliases_added": 2,
            },
        }
    ]


async def test_a_preview_says_the_same_and_changes_nothing(
    memory, lineage, owner, source, target, learn
):
    await learn(source, "likes", "tea", confidence=0.9)
    await learn(source, "owns", "a car")
    await learn(target, "likes", "coffee", confidence=0.5)
    before = [await get_entity(memory, one, lineage) for one in (source, target)]
    rows = await owner.fetch("select * from facts order by id")
    preview = await preview_merge(memory, source, target, lineage)
    assert [await get_entity(memory, one, lineage) for one in (source, target)] == before
    assert await owner.fetch("select * from facts order by id") == rows
    assert await events(owner, "entity_merge") == []
    (rivalry,), moving = preview.rivalries, {one["content"] for one in preview.repointed}
    sides = rivalry["stays"]["content"], rivalry["gives_way"]["content"]
    assert (*sides, rivalry["why"], moving) == ("tea", "coffee", "more confident", {"tea", "a car"})
    report = await merge_entities(memory, source, target, lineage)
    assert asdict(report).items() <= asdict(preview).items()


@pytest.mark.contract("R18.6")
async def test_an_entity_cannot_be_merged_into_itself(memory, lineage, source):
    with pytest.raises(InvalidInput, match="cannot be merged into itself"):
        await merge_entities(memory, source, source, lineage)


@pytest.mark.contract("R18.6")
async def test_entities_that_do_not_exist_are_refused(memory, lineage, source):
    with pytest.raises(NotFound, match=f"source_entity_id: entity {NOBODY} does not exist"):
        await merge_entities(memory, NOBODY, source, lineage)
    with pytest.raises(NotFound, match=f"target_entity_id: entity {NOBODY} does not exist"):
        await merge_entities(memory, source, NOBODY, lineage)


@pytest.mark.contract("R18.6", "L20")
async def test_an_entity_merged_away_is_neither_source_nor_target(
    memory, lineage, owner, source, target
):
    third = await create_entity(memory, "Rupert", "person", [], {}, lineage)
    await merge_entities(memory, source, target, lineage)
    with pytest.raises(Conflict, match=f"source_entity_id: .* was merged into {target}"):
        await merge_entities(memory, source, third, lineage)
    with pytest.raises(Conflict, match=f"target_entity_id: .* was merged into {target}"):
        await merge_entities(memory, third, source, lineage)
    assert len(await events(owner, "entity_merge")) == 1
    assert (await get_entity(memory, third, lineage))["metadata"] == {}


@pytest.mark.contract("R18.6", "L1")
async def test_another_tenants_entities_do_not_exist(
    memory, lineage, stranger, source, target, learn, owner
):
    await learn(source, "likes", "tea")
    theirs = await create_entity(memory, "Robert", "person", [], {}, stranger)
    for pair in ((source, target), (theirs, target), (source, theirs)):
        with pytest.raises(NotFound, match="does not exist"):
            await merge_entities(memory, *pair, stranger)
    assert await owner.fetchval("select count(*) from facts where entity_id = $1", source) == 1
    assert await owner.fetchval("select count(*) from entities where metadata ? 'merged_into'") == 0


@pytest.mark.contract("R18.6")
async def test_a_refused_merge_leaves_nothing_behind(memory, lineage, owner, source, target, learn):
    """The merge fails at its last step, after everything else was written."""
    await learn(source, "likes", "tea")
    await learn(target, "likes", "coffee")
    before = await owner.fetch("select * from facts order by id")
    taken = await owner.fetchval("select id from memory_events limit 1")
    memory.new_id = lambda: taken
    with pytest.raises(Conflict):
        await merge_entities(memory, source, target, lineage)
    assert await owner.fetch("select * from facts order by id") == before
    assert "merged_into" not in (await get_entity(memory, source, lineage))["metadata"]
    assert await links(owner) == []


@pytest.mark.contract("R18.7")
async def test_both_entities_are_locked_while_the_merge_runs(
    memory, lineage, source, target, learn, onlooker
):
    stuck = await learn(source, "likes", "tea")
    hold = onlooker.transaction()
    await hold.start()
    await onlooker.execute("select from facts where id = $1 for update", stuck)
    merging = asyncio.create_task(merge_entities(memory, source, target, lineage))
    await until_waiting(onlooker)
    # The weakest lock there is, which only FOR UPDATE keeps out.
    free = await onlooker.fetch("select id from entities for key share skip locked")
    await hold.rollback()
    await merging
    assert free == []
    assert len(await onlooker.fetch("select id from entities for key share skip locked")) == 2


@pytest.mark.contract("R18.7")
async def test_a_merge_waits_for_whoever_holds_an_entity(memory, lineage, source, target, onlooker):
    hold = onlooker.transaction()
    await hold.start()
    await onlooker.execute("update entities set aliases = '{late}' where id = $1", source)
    merging = asyncio.create_task(merge_entities(memory, source, target, lineage))
    await until_waiting(onlooker)
    await hold.commit()
    await merging
    assert (await get_entity(memory, target, lineage))["aliases"] == ["Rob", "late", "Bob"]


@pytest.mark.contract("L20")
async def test_of_two_opposite_merges_one_wins(memory, lineage, owner):
    for i in range(15):
        one = await create_entity(memory, f"one {i}", "person", [], {}, lineage)
        two = await create_entity(memory, f"two {i}", "person", [], {}, lineage)
        tries = await asyncio.gather(
            merge_entities(memory, one, two, lineage),
            merge_entities(memory, two, one, lineage),
            return_exceptions=True,
        )
        assert sorted(type(done).__name__ for done in tries) == ["Conflict", "MergeReport"]
    buried = "select count(*) from entities where metadata ? 'merged_into'"
    assert await owner.fetchval(buried) == 15


@pytest.mark.contract("L20")
async def test_opposite_merges_wait_in_the_same_order(memory, lineage, source, target, onlooker):
    """Both queue for the lower id first: while it is held neither holds the other."""
    hold = onlooker.transaction()
    await hold.start()
    await onlooker.execute("select from entities where id = $1 for update", min(source, target))
    tries = [
        asyncio.create_task(merge_entities(memory, *pair, lineage))
        for pair in ((source, target), (target, source))
    ]
    await until_waiting(onlooker, 2)
    free = await onlooker.fetch("select id from entities for update skip locked")
    await hold.rollback()
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert {row["id"] for row in free} == {source, target}
    assert sorted(type(one).__name__ for one in done) == ["Conflict", "MergeReport"]


@pytest.mark.contract("R18.7", "L20")
async def test_facts_stored_meanwhile_are_moved_or_refused(memory, lineage, owner):
    for i in range(10):
        source = await create_entity(memory, f"source {i}", "person", [], {}, lineage)
        target = await create_entity(memory, f"target {i}", "person", [], {}, lineage)
        facts = [
            store_fact(memory, NewFact("x", "likes", f"{k}", entity_id=which), lineage)
            for k in range(3)
            for which in (source, target)
        ]
        merging, *stored = await asyncio.gather(
            merge_entities(memory, source, target, lineage), *facts, return_exceptions=True
        )
        assert isinstance(merging, MergeReport)
        failures = [one for one in stored if isinstance(one, Exception)]
        assert all(isinstance(one, NotFound) for one in failures)
        active = await owner.fetchval(
            "select count(*) from facts where entity_id = $1 and validity = 'active'", target
        )
        assert active == 1
        left = await owner.fetchval("select count(*) from facts where entity_id = $1", source)
        assert left == 0


@pytest.mark.contract("R18.7")
async def test_a_merge_waits_for_a_fact_being_stored_and_takes_it_along(
    memory, lineage, owner, source, target, onlooker
):
    """The writer is stopped between holding the entity and adding its fact."""
    hold = onlooker.transaction()
    await hold.start()
    await onlooker.execute("lock table facts in share mode")
    new = NewFact("Bob", "likes", "tea", entity_id=source)
    storing = asyncio.create_task(store_fact(memory, new, lineage))
    await until_waiting(onlooker, 1)
    merging = asyncio.create_task(merge_entities(memory, source, target, lineage))
    await until_waiting(onlooker, 2)
    await hold.rollback()
    stored, report = await asyncio.gather(storing, merging)
    assert await fact(owner, stored.id) == ("active", target, None)
    assert report.facts_repointed == 1


async def test_a_chain_of_merges_keeps_everything(memory, lineage, owner, source, target, learn):
    third = await create_entity(memory, "R. Jones", "person", [], {"age": 41}, lineage)
    first = await learn(source, "likes", "tea", confidence=0.3)
    second = await learn(target, "likes", "coffee", confidence=0.5)
    last = await learn(third, "likes", "water", confidence=0.4)
    await merge_entities(memory, source, target, lineage)
    await merge_entities(memory, target, third, lineage)
    assert await fact(owner, second) == ("active", third, last)
    assert await fact(owner, first) == ("superseded", third, None)
    assert sorted(await links(owner)) == sorted(
        [(second, "supersedes", first), (second, "supersedes", last)]
    )
    assert (await get_entity(memory, third, lineage))["metadata"] == {
        "age": 41,
        "phone": "2",
        "city": "Rome",
    }


async def test_merging_never_fails_for_size(memory, lineage):
    names = [[f"{who}{i}" for i in range(100)] for who in "ab"]
    ids = [
        await create_entity(
            memory, f"n{who}", "person", aliases, {f"k{who}": "x" * 19_000}, lineage
        )
        for who, aliases in enumerate(names)
    ]
    report = await merge_entities(memory, *ids, lineage)
    assert report.aliases_added == 101
    small = {"k0": "y"}
    assert (await update_entity(memory, ids[1], lineage, metadata=small))["metadata"]["k0"] == "y"


async def test_the_source_of_one_tenant_leaves_the_same_name_of_another_alone(
    memory, lineage, source, target
):
    rival = Lineage("rival")
    theirs = await create_entity(memory, "Bob", "person", [], {}, rival)
    await merge_entities(memory, source, target, lineage)
    assert (await get_entity(memory, theirs, rival))["metadata"] == {}


@pytest.mark.contract("L31")
async def test_what_is_surer_now_stays_however_sure_it_was_at_first(
    memory, lineage, owner, source, target, learn, clock
):
    faded = await learn(source, "likes", "tea")
    clock.advance(days=200)
    fresh = await learn(target, "likes", "coffee", confidence=0.7)
    (rivalry,) = (await preview_merge(memory, source, target, lineage)).rivalries
    assert (rivalry["stays"]["id"], rivalry["why"]) == (fresh, "more confident")
    await merge_entities(memory, source, target, lineage)
    assert await fact(owner, fresh) == ("active", target, faded)
    assert await fact(owner, faded) == ("superseded", target, None)


async def test_a_merge_is_taken_back_after_later_writes(
    memory, lineage, owner, source, target, learn, clock
):
    """What moved goes back, what gave way holds again; what was told since stays where it is."""
    won = await learn(source, "likes", "tea")
    lost = await learn(source, "city", "Rome", confidence=0.4)
    moved = await learn(source, "age", "40")
    beaten = await learn(target, "likes", "rum", confidence=0.4)
    own = await learn(target, "city", "Oslo")
    before = [await get_entity(memory, one, lineage) for one in (source, target)]
    await merge_entities(memory, source, target, lineage)
    clock.advance(days=1)
    since = [await learn(target, "likes", "milk"), await learn(target, "job", "pilot")]
    since.append((await store_fact(memory, NewFact("bobby", "plays", "chess"), lineage)).id)
    await update_entity(memory, target, lineage, metadata={"age": 41})
    parted = await unmerge_entities(memory, target, lineage)
    assert (parted.source_entity_id, parted.target_entity_id) == (source, target)
    assert (parted.facts_returned, parted.facts_restored, parted.facts_left) == (3, 1, [beaten])
    assert await fact(owner, won) == ("superseded", source, None)
    assert await fact(owner, lost) == ("active", source, None)
    assert await fact(owner, moved) == ("active", source, None)
    assert await fact(owner, beaten) == ("superseded", target, None)
    assert (await fact(owner, own))[:2] == ("active", target)
    for one in since:
        assert (await fact(owner, one))[:2] == ("active", target)
    after = [await get_entity(memory, one, lineage) for one in (source, target)]
    for one in (*before, *after):
        del one["updated_at"]
    before[1]["metadata"]["age"] = 41
    assert after == before
    assert await differences(owner) == []
    with pytest.raises(Conflict, match="no merge that can be undone"):
        await unmerge_entities(memory, source, lineage)
    # What can be merged again can be parted again.
    await merge_entities(memory, source, target, lineage)
    assert (await unmerge_entities(memory, source, lineage)).facts_returned == 3


async def test_a_window_that_a_merge_narrowed_is_open_again_and_an_event_says_so(
    memory, lineage, owner, clock, source, target, learn
):
    await learn(source, "city", "Rome", confidence=0.4)
    clock.advance(days=1)
    later = await learn(target, "city", "Oslo")
    await merge_entities(memory, source, target, lineage)
    begins = "select valid_from from facts where id = $1"
    assert await owner.fetchval(begins, later) == clock.now
    await unmerge_entities(memory, source, lineage)
    assert await owner.fetchval(begins, later) is None
    [*_, told] = await audit_stream.events(owner, later)
    assert (told["event_type"], told["payload"]["undo"]) == ("fact_bounded", True)
    assert told["payload"]["window"] == {"from": [clock.now.isoformat(), None], "to": [None, None]}


async def test_merges_partings_and_writers_at_once_leave_every_fact_with_one_of_them(
    memory, lineage, owner, source, target, learn
):
    for one in (source, target):
        for number in range(3):
            await learn(one, f"p{number}", str(one))
    names, faults = ("Bob", "Robert", "Bobby"), (Conflict, NotFound)
    for turn in range(8):
        tries = [
            merge_entities(memory, source, target, lineage),
            unmerge_entities(memory, target, lineage),
            merge_entities(memory, target, source, lineage),
            unmerge_entities(memory, source, lineage),
            *(store_fact(memory, NewFact(name, "p0", f"{name} {turn}"), lineage) for name in names),
        ]
        done = await asyncio.gather(*tries, return_exceptions=True)
        wrong = [one for one in done if isinstance(one, Exception) and not isinstance(one, faults)]
        assert wrong == []
        assert [one for one in done[4:] if isinstance(one, Exception)] == []
    astray = "select count(*) from facts f left join entities e on e.id = f.entity_id "
    astray += "where e.id is null or e.metadata ? 'merged_into'"
    assert await owner.fetchval(astray) == 0
    assert await differences(owner) == []
