"""Slow runs, lost leases, runners at once: no loss, no duplicate, no endless loop."""

import asyncio
import re
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from butlers.clock import utc_now
from butlers.memory.flows import forget
from butlers.memory.flows.consolidation.lease import ABANDONED, TAKEN_OVER, claim, claim_limits
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.policy.consolidation import Reach
from db.databases import connected, until_waiting
from memory.audit_stream import event_types
from memory.consolidation_stories import active_facts, states, statuses, tell
from memory.scripted_model import ScriptedModel, answer, fact, failing

ALL = "Slow, Quick, Second, Other and Ann: each likes tea"


def said(subject: str) -> str:
    return answer(new_facts=[fact(subject, "likes", "tea")])


class Waiting(ScriptedModel):
    """A model that answers when it is told to."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.asked, self.may_answer, self.cut_off = asyncio.Event(), asyncio.Event(), False

    async def complete(self, prompt, **options):
        self.asked.set()
        try:
            async with asyncio.timeout(30):
                await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cut_off = True
            raise
        return await super().complete(prompt, **options)


@pytest.fixture
async def slow(memory, lineage):
    """A run whose model has been asked and has not answered yet, over two episodes."""
    for text in ("one", "two"):
        await tell(memory, lineage, f"{ALL}: {text}")
    model = Waiting(said("Slow"))
    run = asyncio.create_task(run_consolidation(memory, model, lineage))
    await asyncio.wait_for(model.asked.wait(), 20)
    yield model, run
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


async def finish(slow):
    model, run = slow
    model.may_answer.set()
    return await asyncio.wait_for(run, 20)


@pytest.mark.contract("N4.3", "N7.2")
async def test_a_butler_being_worked_on_is_left_alone(memory, lineage, owner, slow):
    """Not even its newer episodes are read: older news must not overwrite newer."""
    await tell(memory, lineage, f"{ALL}: three")
    await tell(memory, lineage, f"{ALL}: elsewhere", butler="zoe")
    other = ScriptedModel(said("Other"))
    report = await run_consolidation(memory, other, lineage)
    assert report.groups == {"zoe": 1}
    assert (await run_consolidation(memory, None, lineage)).groups == {}
    assert (await states(owner))[2]["leased_by"] is None
    assert (await finish(slow)).groups == {"general": 3}
    assert await statuses(owner) == ["consolidated"] * 4


@pytest.mark.contract("N7.2", "L10", "L11")
async def test_a_run_slower_than_its_lease_loses_to_the_next(memory, lineage, owner, clock, slow):
    clock.advance(seconds=301)
    taking_over = await run_consolidation(memory, ScriptedModel(said("Quick")), lineage)
    assert taking_over.episodes_consolidated == 2
    late = await finish(slow)
    assert late.errors == [f"general: {TAKEN_OVER}"]
    assert (late.facts_created, late.episodes_consolidated, late.episodes_failed) == (0, 0, 0)
    assert await active_facts(owner) == {("Quick", "likes", "tea")}
    rows = await states(owner)
    assert [(row["status"], row["attempts"], row["error"]) for row in rows] == [
        ("consolidated", 1, ABANDONED)
    ] * 2
    assert (await event_types(owner, rows[0]["id"]))[1:] == [
        "episode_consolidation_failed", "episode_consolidated"
    ]  # fmt: skip


@pytest.mark.contract("N7.2")
async def test_a_late_answer_does_not_disturb_who_holds_the_episodes_now(
    memory, lineage, owner, clock, slow
):
    clock.advance(seconds=301)
    second = Waiting(said("Second"))
    run = asyncio.create_task(run_consolidation(memory, second, lineage))
    await asyncio.wait_for(second.asked.wait(), 20)
    holder = (await states(owner))[0]["leased_by"]
    assert (await finish(slow)).errors == [f"general: {TAKEN_OVER}"]
    assert [row["leased_by"] for row in await states(owner)] == [holder, holder]
    second.may_answer.set()
    assert (await asyncio.wait_for(run, 20)).episodes_consolidated == 2
    assert await active_facts(owner) == {("Second", "likes", "tea")}


@pytest.mark.contract("N7.2")
async def test_a_lease_that_ran_out_unnoticed_still_counts(memory, lineage, owner, clock, slow):
    clock.advance(seconds=301)
    assert (await finish(slow)).episodes_consolidated == 2
    assert [row["attempts"] for row in await states(owner)] == [0, 0]


@pytest.mark.contract("N7.2")
async def test_the_lease_is_renewed_while_the_model_thinks(
    memory, lineage, owner, clock, set_limits
):
    set_limits(CONSOLIDATION_LEASE_SECONDS=1)
    await tell(memory, lineage, ALL)
    model = Waiting(said("Slow"))
    run = asyncio.create_task(run_consolidation(memory, model, lineage))
    await asyncio.wait_for(model.asked.wait(), 20)
    for _ in range(3):
        clock.advance(seconds=0.9)
        await _until_leased_beyond(owner, clock)
        assert (await run_consolidation(memory, failing(), lineage)).episodes_processed == 0
    model.may_answer.set()
    assert (await asyncio.wait_for(run, 20)).episodes_consolidated == 1
    assert (await states(owner))[0]["attempts"] == 0


async def _until_leased_beyond(owner, clock):
    async with asyncio.timeout(20):
        while (await states(owner))[0]["leased_until"] <= clock.now + timedelta(seconds=0.95):
            await asyncio.sleep(0.05)


@pytest.mark.contract("N7.2")
async def test_a_lease_is_renewed_before_it_runs_out_by_the_clock_on_the_wall(
    memory, lineage, owner, set_limits
):
    """Leases end while time passes, which no clock that stands still can show."""
    memory = replace(memory, now=utc_now)
    set_limits(CONSOLIDATION_LEASE_SECONDS=3)
    await tell(memory, lineage, ALL)
    model = Waiting(said("Slow"))
    run = asyncio.create_task(run_consolidation(memory, model, lineage))
    await asyncio.wait_for(model.asked.wait(), 20)
    held_for = time.monotonic() + 4
    while time.monotonic() < held_for:
        assert (await run_consolidation(memory, failing(), lineage)).groups == {}
        await asyncio.sleep(0.1)
    model.may_answer.set()
    assert (await asyncio.wait_for(run, 20)).episodes_consolidated == 1
    assert (await states(owner))[0]["attempts"] == 0


async def test_a_lost_lease_ends_the_session_at_once(memory, lineage, owner, set_limits):
    set_limits(CONSOLIDATION_LEASE_SECONDS=1)
    await tell(memory, lineage, ALL)
    model = Waiting(said("Slow"))
    run = asyncio.create_task(run_consolidation(memory, model, lineage))
    await asyncio.wait_for(model.asked.wait(), 20)
    await owner.execute("update episodes set leased_by = 'another run'")
    report = await asyncio.wait_for(run, 20)
    assert report.errors == [f"general: {TAKEN_OVER}"] and model.cut_off
    (row,) = await states(owner)
    assert (row["leased_by"], row["status"], row["attempts"]) == ("another run", "pending", 0)


async def test_a_run_that_is_stopped_leaves_everything_as_it_was(memory, lineage, owner, slow):
    model, run = slow
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert run.cancelled() and model.cut_off
    assert [(row["status"], row["attempts"], row["leased_by"]) for row in await states(owner)] == [
        ("pending", 0, None)
    ] * 2


async def test_not_even_an_impatient_stop_keeps_the_episodes(
    memory, lineage, owner, slow, worker_access
):
    """Stopped again while it lets go, it still does: else they would be held until the lease ends.

    Somebody else has the rows, so that letting go takes long enough to be interrupted.
    """
    _, run = slow
    async with connected(worker_access.owner_dsn) as holder, holder.transaction():
        await holder.execute("select from episodes for update")
        run.cancel()
        await until_waiting(owner)
        run.cancel()
        await asyncio.sleep(0.05)
    # It waits for what it let go of, so that it ends only after the rows are free.
    await asyncio.gather(run, return_exceptions=True)
    assert not any(row["leased_by"] for row in await states(owner))
    assert [(row["status"], row["attempts"]) for row in await states(owner)] == [("pending", 0)] * 2


async def test_an_episode_forgotten_meanwhile_takes_the_answer_with_it(
    memory, lineage, owner, slow
):
    first, _ = await states(owner)
    await forget.forget_memory(memory, "episode", first["id"], lineage)
    report = await finish(slow)
    assert report.errors == [f"general: {TAKEN_OVER}"]
    assert await active_facts(owner) == set()
    assert await statuses(owner) == ["failed", "failed"]


@pytest.mark.contract("N7.2", "N4.3")
async def test_many_runners_read_every_episode_exactly_once(
    memory, lineage, owner, clock, set_limits
):
    set_limits(CONSOLIDATION_BATCH=2)
    told = []
    for i in range(12):
        clock.advance(seconds=1)
        told.append(f"Note{i}")
        await tell(memory, lineage, f"Note{i} was read", butler=f"butler{i % 2}")

    async def slowly(prompt):
        await asyncio.sleep(0.02)
        return answer(new_facts=[fact(name, "is", "read") for name in _names(prompt)])

    model = ScriptedModel(slowly)
    reports = []
    for _ in range(6):
        reports += await asyncio.gather(
            *(run_consolidation(memory, model, lineage) for _ in range(4))
        )
    read = Counter(name for prompt in model.prompts for name in _names(prompt))
    assert read == Counter(told)
    assert sum(report.episodes_consolidated for report in reports) == 12
    assert sum(report.facts_created for report in reports) == 12
    assert all(report.errors == [] for report in reports)
    for butler in ("butler0", "butler1"):
        order = [name for prompt in model.prompts for name in _names(prompt)]
        mine = [name for i, name in enumerate(told) if f"butler{i % 2}" == butler]
        assert [name for name in order if name in mine] == mine


def _names(prompt: str) -> list[str]:
    return re.findall(r"<episode_content>\n(\w+)", prompt)


@pytest.mark.contract("N7.2")
async def test_an_episode_that_kills_every_run_ends_as_a_dead_letter(memory, lineage, owner, clock):
    """A run that dies settles nothing; its attempt is counted by the next one to come along."""
    await tell(memory, lineage)
    for attempt in range(5):
        run = asyncio.create_task(_die_thinking(memory, lineage))
        await asyncio.wait_for(run, 20)
        (row,) = await states(owner)
        assert row["attempts"] == attempt and row["leased_by"] is not None
        clock.advance(seconds=301)
    model = ScriptedModel(said("Ann"))
    report = await run_consolidation(memory, model, lineage)
    assert model.prompts == [] and report.episodes_dead_lettered == 1
    (row,) = await states(owner)
    assert (row["status"], row["attempts"], row["reason"]) == ("dead_letter", 5, ABANDONED)


async def _die_thinking(memory, lineage):
    """Claim, and never be heard of again."""
    claimed = await claim(memory, "general", lineage, claim_limits(memory, Reach()))
    assert len(claimed.episodes) == 1
