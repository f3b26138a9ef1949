"""What a model draws waits for a yes where somebody wants it so, and is decided one by one."""

import asyncio
import uuid

import pytest

from butlers.errors import InvalidInput, NotFound
from butlers.memory.flows import forget
from butlers.memory.flows.accept_proposal import accept
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.proposals import decline, find_proposals
from memory.audit_stream import event_types
from memory.consolidation_stories import (
    active_facts,
    derivations,
    infer,
    know,
    statuses,
    tell,
    with_settings,
)
from memory.scripted_model import ScriptedModel, answer, fact


@pytest.fixture
async def reviewed(memory, lineage):
    """One of each kind waits; the episode they come from, and the facts they are about."""
    with_settings(memory, review=True)
    cid = await infer(memory, lineage, "Cid", "likes", "ale", scope="general")
    dan = await know(memory, lineage, "Dan", "likes", "rum")
    text = "Ann likes tea: offer some. Cid likes beer now. Dan had rum."
    episode = await tell(memory, lineage, text)
    said = answer(
        new_facts=[fact("Ann", "likes", "tea", importance=8, tags=["drink"])],
        updated_facts=[{"target_id": str(cid), **fact("Cid", "likes", "beer")}],
        new_rules=[{"content": "Offer some tea"}],
        confirmations=[str(dan)],
    )
    report = await run_consolidation(memory, ScriptedModel(said), lineage)
    assert (report.proposals_made, report.facts_created, report.errors) == (4, 0, [])
    return episode, cid, dan


async def waiting(memory, lineage):
    return {one["kind"]: one for one in await find_proposals(memory, 100, lineage)}


async def test_what_waits_is_told_beside_what_is_so_now(memory, lineage, stranger, owner, reviewed):
    episode, cid, dan = reviewed
    assert await statuses(owner) == ["consolidated"]
    assert await active_facts(owner) == {("Cid", "likes", "ale"), ("Dan", "likes", "rum")}
    found = await waiting(memory, lineage)
    assert set(found) == {"new_fact", "updated_fact", "new_rule", "confirmation"}
    changed = found["updated_fact"]
    assert (changed["content_now"], changed["proposed"]["content"]) == ("ale", "beer")
    assert (changed["target_id"], changed["source_episode_ids"]) == (str(cid), [str(episode)])
    assert found["new_fact"]["content_now"] is None
    assert found["confirmation"]["target_id"] == str(dan)
    assert await find_proposals(memory, 100, stranger) == []


async def test_each_is_accepted_by_itself(memory, lineage, owner, reviewed):
    episode, cid, dan = reviewed
    found = await waiting(memory, lineage)
    new = await accept(memory, found["new_fact"]["id"], lineage)
    row = await owner.fetchrow("select * from facts where id = $1", new["about_id"])
    assert (row["subject"], row["content"], row["confidence"]) == ("Ann", "tea", 1.0)
    assert (row["importance"], row["tags"], row["scope"]) == (8.0, '["drink"]', "general")
    assert (row["id"], episode) in await derivations(owner)
    changed = await accept(memory, found["updated_fact"]["id"], lineage)
    successor = await owner.fetchrow("select * from facts where id = $1", changed["about_id"])
    assert (successor["supersedes_id"], successor["content"]) == (cid, "beer")
    rule = await accept(memory, found["new_rule"]["id"], lineage)
    assert rule["about"] == "rule"
    await accept(memory, found["confirmation"]["id"], lineage)
    assert (await event_types(owner, dan))[-1] == "fact_confirmed"
    assert await find_proposals(memory, 100, lineage) == []
    decided = await owner.fetch("select distinct status, decided_by from memory_proposals")
    assert [tuple(row) for row in decided] == [("accepted", "tester")]


async def test_what_was_declined_is_not_proposed_again(memory, lineage, owner, reviewed):
    for one in (await waiting(memory, lineage)).values():
        assert await decline(memory, one["id"], lineage)
        assert not await decline(memory, one["id"], lineage)
        with pytest.raises(NotFound, match="no open proposal"):
            await accept(memory, one["id"], lineage)
    await owner.execute("set session_replication_role = replica")
    await owner.execute(
        "update episodes set consolidation_status = 'pending', consolidated = false"
    )
    await owner.execute("set session_replication_role = origin")
    said = answer(new_facts=[fact("Ann", "likes", "tea", importance=8, tags=["drink"])])
    report = await run_consolidation(memory, ScriptedModel(said), lineage)
    assert (report.proposals_made, report.facts_created) == (0, 0)
    assert await find_proposals(memory, 100, lineage) == []
    assert len(await active_facts(owner)) == 2


async def test_two_who_accept_at_once_do_it_once(memory, lineage, owner, reviewed):
    found = (await waiting(memory, lineage))["new_fact"]
    told = await asyncio.gather(
        *(accept(memory, found["id"], lineage) for _ in range(4)), return_exceptions=True
    )
    assert sum(isinstance(one, NotFound) for one in told) == 3
    assert await owner.fetchval("select count(*) from facts where subject = 'Ann'") == 1


async def test_a_confirmation_of_what_is_gone_is_refused_and_waits(memory, lineage, reviewed):
    _, _, dan = reviewed
    await forget.forget_memory(memory, "fact", dan, lineage)
    found = (await waiting(memory, lineage))["confirmation"]
    with pytest.raises(NotFound, match="no longer current"):
        await accept(memory, found["id"], lineage)
    assert "confirmation" in await waiting(memory, lineage)


async def test_strangers_decide_nothing(memory, lineage, stranger, reviewed):
    found = (await waiting(memory, lineage))["new_fact"]
    assert not await decline(memory, found["id"], stranger)
    with pytest.raises(NotFound):
        await accept(memory, found["id"], stranger)
    with pytest.raises(NotFound):
        await accept(memory, uuid.uuid4(), lineage)
    with pytest.raises(InvalidInput, match="proposal_id"):
        await decline(memory, "nonsense", lineage)
    assert len(await find_proposals(memory, 100, lineage)) == 4
