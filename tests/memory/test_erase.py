"""Whoever is erased is nowhere any more, and nobody else has lost anything."""

import json
import re
from uuid import UUID

import asyncpg
import pytest

from butlers.errors import NotFound
from butlers.memory.flows import entities, history, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.check import StoreCheck
from butlers.memory.flows.erase import erase, preview
from butlers.memory.flows.history import verify_events
from butlers.memory.model import NewEpisode, NewFact
from butlers.memory.policy.erasure import ErasureRequest
from butlers.memory.store import rows
from memory.audit_stream import events
from memory.whole_store import everything, fill

IDA = re.compile(r"\b(?:ida|idasen)\b", re.IGNORECASE)


def naming(rows):
    return [(table, row) for table, found in rows.items() for row in found if IDA.search(row)]


@pytest.mark.contract("L39")
async def test_a_person_is_erased_from_every_row_and_nobody_else_is(
    memory, lineage, stranger, owner, clock
):
    kept = await fill(memory, lineage, owner, clock)
    others = await _stranger_has(memory, stranger)
    before = await everything(owner, lineage.tenant_id)
    assert len(naming(before)) > 20
    untouched = await everything(owner, stranger.tenant_id)

    shown = await preview(memory, ErasureRequest(about="ida"), lineage)
    assert await everything(owner, lineage.tenant_id) == before
    done = await erase(memory, ErasureRequest(about="ida"), lineage)
    assert (done.counts, set(done.found)) == (shown.counts, set(shown.found))
    assert done.counts.keys() >= {
        "episode", "fact", "rule", "entity", "rule_application", "proposal", "binned_episode",
        "entity_reworded", "rule_reworded", "project_reworded", "event",
    }  # fmt: skip

    after = await everything(owner, lineage.tenant_id)
    assert naming(after) == []
    # What was drawn from what named her went with it, what has nothing to do with her stays.
    assert not any("fish" in row for row in after["facts"])
    rest = {json.loads(row)["id"] for table in ("facts", "rules") for row in after[table]}
    assert rest == {str(kept["tea"]), str(kept["flat"]), str(kept["brief"])}
    assert (await StoreCheck(memory).run()).lines == []
    assert await everything(owner, stranger.tenant_id) == untouched
    trail = await verify_events(memory, lineage)
    assert trail["intact"] and 0 < trail["erased"] <= done.counts["event"]
    assert await recall.get_memory(memory, "fact", others, stranger) is not None

    again = await erase(memory, ErasureRequest(about="ida"), lineage)
    assert again.counts == {}


@pytest.mark.contract("L39")
async def test_events_tell_what_happened_without_what_was_said(memory, lineage, owner, clock):
    await fill(memory, lineage, owner, clock)
    told = {row["id"]: row for row in await events(owner)}
    await erase(memory, ErasureRequest(about="Ida"), lineage)
    *after, last = await events(owner)
    assert last["event_type"] == "memory_erased"
    for event in after:
        before = told[event["id"]]
        assert {**event, "payload": 0} == {**before, "payload": 0}
        changed = event["payload"] != before["payload"]
        if changed:
            assert str(event["id"]) in last["payload"]["event_ids"]
    created = next(e for e in after if e["event_type"] == "fact_created")
    assert created["payload"]["to"] == "active"
    assert re.fullmatch("sha256:[0-9a-f]{64}", created["payload"]["subject"])
    with pytest.raises(asyncpg.PostgresError):
        await owner.execute("update memory_events set payload = '{}'")
    with pytest.raises(asyncpg.PostgresError):
        await owner.execute("delete from rule_applications")


async def test_by_entity_all_names_count_and_what_is_kept_stays(memory, lineage, owner, clock):
    known = await fill(memory, lineage, owner, clock)
    spared = await remember.store_episode(memory, NewEpisode("Ida paints", "general"), lineage)
    about_her = NewFact("the painter", "shows in", "Oslo", entity_id=known["ida"])
    hers = await remember.store_fact(memory, about_her, lineage)
    named = await remember.store_fact(memory, NewFact("Mrs Idasen", "age", "40"), lineage)
    wanted = ErasureRequest(entity_id=known["ida"], keep=(str(spared.id),))
    done = await erase(memory, wanted, lineage)
    assert {("fact", str(hers.id)), ("fact", str(named.id))} <= done.found.keys()
    rows = await everything(owner, lineage.tenant_id)
    assert {json.loads(row).get("id") for _, row in naming(rows)} <= {str(spared.id), None}
    with pytest.raises(NotFound):
        await erase(memory, wanted, lineage)


async def test_a_session_goes_with_all_that_came_of_it(memory, lineage, owner, clock):
    session = UUID(int=77)
    said = NewEpisode("We chose blue", "general", session, metadata={"session": str(session)})
    first = await remember.store_episode(memory, said, lineage)
    drawn = NewFact("colour", "is", "blue", source_episode_id=first.id)
    blue = await remember.store_fact(memory, drawn, lineage)
    other = await remember.store_fact(memory, NewFact("size", "is", "large"), lineage)
    done = await erase(memory, ErasureRequest(session=str(session)), lineage)
    assert set(done.found) == {("episode", str(first.id)), ("fact", str(blue.id))}
    assert await recall.get_memory(memory, "fact", other.id, lineage) is not None
    assert not any(
        "blue" in row for found in (await everything(owner, "acme")).values() for row in found
    )
    assert len(await history.memory_history(memory, blue.id, lineage)) == 1


async def test_everything_of_a_tenant_goes_and_only_of_that_one(
    memory, lineage, stranger, owner, clock
):
    await fill(memory, lineage, owner, clock)
    await _stranger_has(memory, stranger)
    untouched = await everything(owner, stranger.tenant_id)
    await erase(memory, ErasureRequest(everything=True), lineage)
    left = {table for table, rows in (await everything(owner, "acme")).items() if rows}
    assert left <= {"memory_events", "embedding_versions", "memory_event_chain"}
    assert naming(await everything(owner, "acme")) == []
    assert await everything(owner, stranger.tenant_id) == untouched


async def test_the_functions_that_erase_reach_no_other_tenant(memory, lineage, stranger, owner):
    theirs = await _stranger_has(memory, stranger)
    ida = await entities.create_entity(memory, "Ida", "person", None, None, stranger)
    untouched = await everything(owner, stranger.tenant_id)
    async with memory.transaction(lineage) as tx:
        assert await rows.erase(tx, kind="facts", keys=[str(theirs)]) == 0
        assert await rows.erase(tx, kind="entities", keys=[str(ida)]) == 0
        assert await rows.erase_names(tx, names=["Ida"]) == 0
        ids = [row["id"] for row in await events(owner)]
        assert await rows.erase_events(tx, ids=ids) == 0
    assert await everything(owner, stranger.tenant_id) == untouched


async def _stranger_has(memory, stranger):
    stored = await remember.store_fact(memory, NewFact("Ida", "lives in", "Oslo"), stranger)
    await recall.recall(memory, CandidateQuery("Ida"), 3, stranger)
    await memory.uses.settle_all()
    return stored.id
