"""Episodes read by a connected agent: claimed, answered, and settled as by the built-in flow."""

import asyncio
import json
import uuid

import pytest

from butlers.errors import Conflict, InvalidInput
from butlers.memory.flows.consolidation.answer import claim_episodes, count_unread, submit
from butlers.memory.flows.consolidation.lease import TAKEN_OVER
from butlers.memory.flows.consolidation.run import run_consolidation
from memory.audit_stream import event_types
from memory.consolidation_stories import (
    active_facts,
    contents,
    derivations,
    everything,
    infer,
    know,
    reading,
    states,
    statuses,
    tell,
)
from memory.scripted_model import ScriptedModel, answer, fact


def said(text: str) -> dict:
    return json.loads(text)


async def test_an_agent_reads_what_waits_longest_and_hands_in_what_it_drew(memory, lineage, owner):
    one, two = [await tell(memory, lineage, text) for text in ("Ann likes tea", "weather")]
    await tell(memory, lineage, "later", butler="zoe")
    claim = await claim_episodes(memory, 10, lineage)
    assert (claim.butler, claim.episodes, claim.waiting) == ("general", 2, 1)
    assert contents(claim.prompt) == ["Ann likes tea", "weather"]
    assert str(claim.claim_id) in claim.prompt and "data only" in claim.prompt
    given = answer(new_facts=[fact("Ann", "likes", "tea", source_episode_ids=[1])], nothing_in=[2])
    report = await submit(memory, claim.claim_id, said(given), lineage)
    assert (report.facts_created, report.episodes_consolidated, report.errors) == (1, 2, [])
    assert await statuses(owner) == ["consolidated", "consolidated", "pending"]
    assert {episode for _, episode in await derivations(owner)} == {one}
    assert (await event_types(owner, two))[-1] == "episode_consolidated"


async def test_what_is_claimed_is_nobody_elses(memory, lineage, owner):
    await tell(memory, lineage)
    claim = await claim_episodes(memory, 10, lineage)
    again = await claim_episodes(memory, 10, lineage)
    assert claim.claim_id is not None and again.claim_id is None
    assert again.prompt == "Nothing waits to be read."
    model = ScriptedModel(reading)
    assert (await run_consolidation(memory, model, lineage)).groups == {} and model.prompts == []


@pytest.mark.contract("L28")
async def test_a_claim_nobody_came_back_to_costs_no_attempt(memory, lineage, owner, clock):
    await tell(memory, lineage)
    for _ in range(7):
        claim = await claim_episodes(memory, 10, lineage)
        assert claim.episodes == 1
        clock.advance(seconds=1801)
    (row,) = await states(owner)
    assert (row["status"], row["attempts"]) == ("pending", 0)
    assert (await run_consolidation(memory, ScriptedModel(reading), lineage)).facts_created == 1
    with pytest.raises(Conflict, match="this claim is over"):
        await submit(memory, claim.claim_id, said(answer()), lineage)


async def test_a_late_answer_counts_while_nobody_else_took_over(memory, lineage, owner, clock):
    await tell(memory, lineage)
    claim = await claim_episodes(memory, 10, lineage)
    clock.advance(hours=2)
    given = said(answer(new_facts=[fact("Ann", "likes", "tea")]))
    assert (await submit(memory, claim.claim_id, given, lineage)).facts_created == 1
    before = await everything(owner)
    with pytest.raises(Conflict, match="this claim is over"):
        await submit(memory, claim.claim_id, given, lineage)
    assert await everything(owner) == before


async def test_two_answers_at_once_are_one(memory, lineage, owner):
    await tell(memory, lineage)
    claim = await claim_episodes(memory, 10, lineage)
    given = said(answer(new_facts=[fact("Ann", "likes", "tea")]))
    told = await asyncio.gather(
        *(submit(memory, claim.claim_id, given, lineage) for _ in range(4)), return_exceptions=True
    )
    assert sum(isinstance(one, Conflict) for one in told) == 3
    refused = [str(one) for one in told if isinstance(one, Conflict)]
    assert all(TAKEN_OVER in one or "claim is over" in one for one in refused)
    assert await active_facts(owner) == {("Ann", "likes", "tea")}
    assert (await event_types(owner)).count("episode_consolidated") == 1


async def test_an_agents_answer_meets_the_same_guards(memory, lineage, stranger, owner):
    hidden = await know(memory, lineage, "Vault", "code", "1234", scope="safe")
    shown = await infer(memory, lineage, "Bob", "likes", "rum")
    theirs = await know(memory, stranger, "Eve", "likes", "noise")
    await tell(memory, lineage, "Ann likes tea. Bob likes ale. The password is hunter22.")
    claim = await claim_episodes(memory, 10, lineage)
    given = answer(
        new_facts=[
            fact("Ann", "likes", "tea"),
            fact("Ann", "likes_also", "gin"),
            fact("Ann", "notes", "the password is hunter22"),
        ],
        updated_facts=[
            {"target_id": str(hidden), **fact("Vault", "code", "tea")},
            {"target_id": 2, **fact("Bob", "likes", "ale")},
        ],
        confirmations=[str(theirs), 99],
    )
    report = await submit(memory, claim.claim_id, said(given), lineage)
    assert (report.facts_created, report.facts_updated, len(report.errors)) == (1, 1, 5)
    assert "hunter22" not in str(report) and await statuses(owner) == ["consolidated"]
    assert await owner.fetchval("select validity from facts where id = $1", shown) == "superseded"
    assert ("Vault", "code", "1234") in await active_facts(owner)


@pytest.mark.contract("L10")
async def test_an_answer_of_which_nothing_can_be_used_is_a_failed_attempt(memory, lineage, owner):
    await tell(memory, lineage)
    claim = await claim_episodes(memory, 10, lineage)
    report = await submit(memory, claim.claim_id, {"thoughts": "none"}, lineage)
    assert (report.episodes_failed, report.episodes_consolidated) == (1, 0)
    (row,) = await states(owner)
    assert (row["status"], row["attempts"], row["leased_by"]) == ("failed", 1, None)


async def test_a_claim_is_its_tenants_own(memory, lineage, stranger, owner):
    await tell(memory, lineage)
    claim = await claim_episodes(memory, 10, lineage)
    assert (await claim_episodes(memory, 10, stranger)).claim_id is None
    with pytest.raises(Conflict):
        await submit(memory, claim.claim_id, said(answer()), stranger)
    with pytest.raises(Conflict):
        await submit(memory, uuid.uuid4(), said(answer()), lineage)
    with pytest.raises(InvalidInput, match="claim_id"):
        await submit(memory, "nonsense", said(answer()), lineage)
    assert await statuses(owner) == ["pending"]


async def test_how_much_waits_is_told(memory, lineage, stranger, clock):
    assert (await count_unread(memory, lineage)).oldest is None
    await tell(memory, lineage)
    oldest = clock.now
    clock.advance(days=2)
    await tell(memory, lineage, butler="zoe")
    found = await count_unread(memory, lineage)
    assert (found.episodes, found.oldest) == (2, oldest)
    assert (await count_unread(memory, stranger)).episodes == 0
