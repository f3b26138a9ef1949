"""The state machine of an episode: every edge, and that no other edge exists."""

import itertools
from datetime import timedelta
from unittest import mock

import asyncpg
import pytest

from butlers.errors import InvalidInput, Unavailable
from butlers.llm import CompletionFailed
from butlers.memory import limits
from butlers.memory.flows import forget
from butlers.memory.flows.consolidation import lease
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.model import ConsolidationStatus, Lineage
from butlers.memory.store import episodes
from memory.audit_stream import events
from memory.consolidation_stories import active_facts, everything, states, statuses, tell
from memory.scripted_model import ScriptedModel, answer, fact, failing

GOOD = answer(new_facts=[fact("Ann", "likes", "tea")])

EDGES = {
    ("pending", "consolidated"),
    ("pending", "failed"),
    ("pending", "dead_letter"),
    ("failed", "consolidated"),
    ("failed", "failed"),
    ("failed", "dead_letter"),
    ("dead_letter", "pending"),
}


# What can be done to an episode


async def succeed(memory, lineage):
    await run_consolidation(memory, ScriptedModel(GOOD), lineage)


async def fail(memory, lineage):
    await run_consolidation(memory, failing(), lineage)


async def fail_for_the_last_time(memory, lineage):
    with mock.patch.object(limits, "CONSOLIDATION_ATTEMPTS", 1):
        await run_consolidation(memory, failing(), lineage)


async def find_no_session(memory, lineage):
    await run_consolidation(memory, ScriptedModel(Unavailable("spent")), lineage)


async def run_dry(memory, lineage):
    await run_consolidation(memory, None, lineage)


async def requeue(memory, lineage):
    await lease.requeue(memory, None, lineage)


async def forget_it(memory, lineage):
    async with memory.transaction(lineage) as tx:
        (found,) = await episodes.find_recent(
            tx, scope="general", limit=1, now=memory.now(), as_of=None, known_at=None
        )
    assert await forget.forget_memory(memory, "episode", found["id"], lineage)


DEEDS = (succeed, fail, fail_for_the_last_time, find_no_session, run_dry, requeue, forget_it)
WAYS = {
    "pending": (),
    "failed": (fail,),
    "consolidated": (succeed,),
    "dead_letter": (fail_for_the_last_time,),
}
MOVES = {
    ("pending", succeed): "consolidated",
    ("pending", fail): "failed",
    ("pending", fail_for_the_last_time): "dead_letter",
    ("failed", succeed): "consolidated",
    ("failed", fail): "failed",
    ("failed", fail_for_the_last_time): "dead_letter",
    ("dead_letter", requeue): "pending",
}


@pytest.mark.contract("N5.1", "N7.2", "L10")
@pytest.mark.parametrize("state", WAYS)
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
async def test_every_deed_in_every_state_takes_a_drawn_edge_or_none(
    memory, lineage, owner, clock, state, deed
):
    id = await tell(memory, lineage)
    for step in WAYS[state]:
        await step(memory, lineage)
    assert await statuses(owner) == [state]
    clock.advance(hours=1)
    told = len(await events(owner, id))
    await deed(memory, lineage)
    assert await statuses(owner) == [MOVES.get((state, deed), state)]
    edges = [
        (event["payload"]["from"], event["payload"]["to"])
        for event in (await events(owner, id))[told:]
        if "from" in event["payload"]
    ]
    moved = MOVES.get((state, deed))
    assert edges == ([(state, moved)] if moved else [])


def test_the_deeds_take_every_drawn_edge():
    assert {(state, target) for (state, _), target in MOVES.items()} == EDGES
    assert set(WAYS) == set(ConsolidationStatus)


@pytest.mark.contract("N4.4", "N5.1", "N7.2")
@pytest.mark.parametrize(
    ("before", "after"), list(itertools.product(ConsolidationStatus, repeat=2))
)
async def test_the_database_refuses_every_other_edge(memory, lineage, owner, before, after):
    id = await tell(memory, lineage)
    for step in WAYS[before]:
        await step(memory, lineage)
    moving = owner.execute(
        "update episodes set consolidation_status = $2::text, "
        "consolidated = ($2::text = 'consolidated'), dead_letter_reason = case "
        "when $2::text = 'dead_letter' then 'x' end where id = $1",
        id,
        str(after),
    )
    if before == after or (before, after) in EDGES:
        await moving
        assert await statuses(owner) == [after]
    else:
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="cannot go from"):
            await moving
        assert await statuses(owner) == [before]


# Failed attempts


@pytest.mark.contract("L10", "L9")
@pytest.mark.parametrize(
    ("mishap", "reason"),
    [
        ("I found nothing.", "No JSON block found in consolidation output"),
        ("{not json}", "Invalid JSON in consolidation output"),
        (CompletionFailed("the session ended with status 1"), "the session ended with status 1"),
        (RuntimeError("content of the episode"), "unexpected RuntimeError"),
        (
            answer(confirmations=["00000000-0000-4000-8000-000000000009"]),
            "memory 00000000-0000-4000-8000-000000000009 was not in the prompt",
        ),
        (answer(new_facts=[{"subject": "Ann"}]), "new_facts[0]: predicate: must be a text"),
    ],
)
async def test_a_failed_attempt_says_why_and_when_it_is_tried_again(
    memory, lineage, owner, clock, mishap, reason
):
    await tell(memory, lineage)
    report = await run_consolidation(memory, ScriptedModel(mishap), lineage)
    assert (report.episodes_failed, report.episodes_consolidated) == (1, 0)
    assert reason in report.errors[0]
    (row,) = await states(owner)
    assert (row["status"], row["attempts"], row["consolidated"]) == ("failed", 1, False)
    assert reason in row["error"]
    assert row["retry_at"] == clock.now + timedelta(minutes=2)
    assert (row["leased_by"], row["leased_until"], row["reason"]) == (None, None, None)
    old_names = await owner.fetchrow("select retry_count, last_error from episodes")
    assert tuple(old_names) == (1, row["error"])


@pytest.mark.contract("L10", "N7.2")
async def test_the_fifth_failure_is_a_dead_letter_after_growing_pauses(
    memory, lineage, owner, clock
):
    id = await tell(memory, lineage)
    model = failing()
    for attempt, minutes in enumerate((2, 4, 8, 16), start=1):
        await run_consolidation(memory, model, lineage)
        (row,) = await states(owner)
        assert (row["status"], row["attempts"]) == ("failed", attempt)
        assert row["retry_at"] == clock.now + timedelta(minutes=minutes)
        clock.advance(minutes=minutes, seconds=-1)
        early = await run_consolidation(memory, model, lineage)
        assert early.episodes_processed == 0 and len(model.prompts) == attempt
        clock.advance(seconds=1)
    report = await run_consolidation(memory, model, lineage)
    assert (report.episodes_dead_lettered, report.episodes_failed) == (1, 0)
    (row,) = await states(owner)
    assert (row["status"], row["attempts"], row["retry_at"]) == ("dead_letter", 5, None)
    assert row["reason"] == "the session ended with status 1"
    clock.advance(days=1)
    await run_consolidation(memory, model, lineage)
    assert len(model.prompts) == 5
    kinds = [event["event_type"] for event in await events(owner, id)]
    assert kinds == [
        "episode_created", *["episode_consolidation_failed"] * 4, "episode_dead_lettered"
    ]  # fmt: skip


@pytest.mark.contract("L10")
async def test_one_applied_action_or_a_valid_nothing_is_success(memory, lineage, owner):
    await tell(memory, lineage, butler="ada")
    await tell(memory, lineage, butler="zoe")
    partial = answer(new_facts=[{"subject": "Bob"}, fact("Ann", "likes", "tea")])
    report = await run_consolidation(memory, ScriptedModel(partial, answer()), lineage)
    assert await statuses(owner) == ["consolidated", "consolidated"]
    assert report.errors == ["ada: new_facts[0]: predicate: must be a text"]
    assert report.episodes_consolidated == 2


@pytest.mark.contract("L10")
async def test_a_failing_embedding_is_a_failed_attempt_that_wrote_nothing(memory, lineage, owner):
    await tell(memory, lineage)
    embed = memory.embedder

    def no_model():
        raise Unavailable("the embedding model is not installed")

    memory.embedder = no_model
    await run_consolidation(memory, ScriptedModel(GOOD), lineage)
    assert await statuses(owner) == ["failed"] and await active_facts(owner) == set()
    memory.embedder = embed


async def test_an_expired_episode_is_not_read_along_with_a_newer_one(memory, lineage, owner, clock):
    await tell(memory, lineage, "long ago")
    clock.advance(days=7)
    await tell(memory, lineage, "just now")
    model = ScriptedModel(answer())
    report = await run_consolidation(memory, model, lineage)
    assert (report.episodes_consolidated, report.errors) == (1, [])
    assert "just now" in model.prompts[0] and "long ago" not in model.prompts[0]
    assert await statuses(owner) == ["pending", "consolidated"]


async def test_expired_episodes_are_left_to_the_cleanup(memory, lineage, owner, clock):
    id = await tell(memory, lineage)
    clock.advance(days=7)
    before = await everything(owner)
    report = await run_consolidation(memory, ScriptedModel(GOOD), lineage)
    assert report.episodes_processed == 0 and await everything(owner) == before
    assert await owner.fetchval("select count(*) from episodes where id = $1", id) == 1


# Dead letters


@pytest.fixture
async def two_dead(memory, lineage, clock):
    one = await tell(memory, lineage, "the first")
    clock.advance(minutes=1)
    two = await tell(memory, lineage, "the second: Ann likes tea")
    await fail_for_the_last_time(memory, lineage)
    return one, two


@pytest.mark.contract("L10")
async def test_dead_letters_are_listed_with_their_reason(memory, lineage, stranger, two_dead):
    found = await lease.find_dead_letters(memory, 10, lineage)
    assert [(row["id"], row["content"]) for row in found] == [
        (str(two_dead[0]), "the first"), (str(two_dead[1]), "the second: Ann likes tea")
    ]  # fmt: skip
    assert {row["dead_letter_reason"] for row in found} == {"the session ended with status 1"}
    assert {row["consolidation_attempts"] for row in found} == {1}
    assert await lease.find_dead_letters(memory, 10, stranger) == []


@pytest.mark.contract("L10", "N7.2")
async def test_a_requeued_dead_letter_starts_again_from_nothing(memory, lineage, owner, two_dead):
    one, two = two_dead
    assert await lease.requeue(memory, [str(two)], Lineage("acme", "operator")) == 1
    first, second = await states(owner)
    assert first["status"] == "dead_letter"
    assert (second["status"], second["attempts"], second["reason"]) == ("pending", 0, None)
    told = (await events(owner, two))[-1]
    assert (told["event_type"], told["actor"]) == ("episode_requeued", "operator")
    assert told["payload"] == {
        "from": "dead_letter", "to": "pending", "attempts": 1,
        "reason": "the session ended with status 1",
    }  # fmt: skip
    await succeed(memory, lineage)
    assert await statuses(owner) == ["dead_letter", "consolidated"]
    assert await lease.requeue(memory, None, lineage) == 1


async def test_only_ones_own_dead_letters_are_requeued(memory, lineage, stranger, owner, two_dead):
    await owner.execute("select 1")
    living = await tell(memory, lineage)
    assert await lease.requeue(memory, list(two_dead), stranger) == 0
    assert await lease.requeue(memory, None, stranger) == 0
    assert await lease.requeue(memory, [living], lineage) == 0
    assert await lease.requeue(memory, [], lineage) == 0
    with pytest.raises(InvalidInput, match="episode_id: found 'nonsense'"):
        await lease.requeue(memory, ["nonsense"], lineage)
    assert sorted(await statuses(owner)) == ["dead_letter", "dead_letter", "pending"]
