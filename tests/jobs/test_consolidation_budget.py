"""Consolidation when the model is away, or may be asked only so often: nobody loses a turn."""

import pytest

from butlers.jobs.spending import BudgetAccount, CountedModel, Spending
from butlers.kernel.sections import SpendingLimits
from butlers.llm import NotReached
from butlers.memory.flows.consolidation.run import consolidate_all, run_consolidation
from butlers.memory.model import Lineage
from butlers.memory.settings import MemoryModuleConfig
from memory.audit_stream import event_types
from memory.consolidation_stories import (
    contents,
    everything,
    reading,
    states,
    statuses,
    tell,
)
from memory.scripted_model import ScriptedModel


@pytest.fixture
def counted(core, clock):
    def of(model, **limits):
        spending = Spending(
            lambda: core, SpendingLimits(**limits), clock, BudgetAccount.MODULES, "memory"
        )
        return CountedModel(model, spending)

    return of


@pytest.mark.contract("L28")
@pytest.mark.parametrize("timed_out", [False, True])
async def test_two_days_without_a_model_cost_no_attempt(
    memory, lineage, owner, clock, counted, timed_out
):
    for number in range(8):
        await tell(memory, lineage, f"Person{number} likes tea")
    memory.settings = MemoryModuleConfig.model_validate({"episodes": {"default_ttl_days": 90}})
    away = ScriptedModel(NotReached("nobody answers", timed_out=timed_out))
    model = counted(away)
    for _ in range(48):
        report = await run_consolidation(memory, model, lineage)
        assert len(report.errors) == 1
        clock.advance(hours=1)
    rows = await states(owner)
    assert {(row["status"], row["attempts"], row["leased_by"]) for row in rows} == {
        ("pending", 0, None)
    }
    assert "episode_consolidation_failed" not in await event_types(owner)
    clock.advance(hours=7)
    await run_consolidation(memory, counted(ScriptedModel(reading)), lineage)
    assert await statuses(owner) == ["consolidated"] * 8


@pytest.mark.contract("L28")
async def test_a_model_that_is_away_is_left_alone_for_a_while(
    memory, lineage, stranger, owner, clock, counted
):
    for whose in (lineage, stranger):
        await tell(memory, whose)
    away = ScriptedModel(NotReached("nobody answers"))
    model = counted(away)
    reports = await consolidate_all(memory, model, "jobs")
    assert len(away.prompts) == 1, "whoever is next would not be answered either"
    assert sum(len(report.errors) for report in reports.values()) == 1
    before = await everything(owner)
    (error,) = (await run_consolidation(memory, model, stranger)).errors
    assert "asked again after 2026-01-10 12:01 UTC" in error and len(away.prompts) == 1
    assert await everything(owner) == before
    clock.advance(minutes=1)
    await run_consolidation(memory, model, lineage)
    assert len(away.prompts) == 2
    clock.advance(minutes=1)
    await run_consolidation(memory, model, lineage)
    assert len(away.prompts) == 2, "the second time it is left alone for twice as long"
    clock.advance(minutes=1)
    away.answers = [reading]
    assert (await run_consolidation(memory, model, lineage)).episodes_consolidated == 1
    assert (await run_consolidation(memory, model, stranger)).episodes_consolidated == 1


@pytest.mark.contract("L29")
async def test_a_hundred_tenants_share_a_small_budget_oldest_first(
    memory, owner, clock, counted, set_limits
):
    """None of them waits more than three days, and a big backlog is no excuse."""
    tenants = [f"t{number:03}" for number in range(100)]
    order = [tenants[(number * 37) % 100] for number in range(100)]
    for tenant in order:
        for number in range(3 if tenant < "t010" else 1):
            await tell(memory, Lineage(tenant), f"{tenant.title()} likes tea {number}")
        clock.advance(seconds=1)
    set_limits(CONSOLIDATION_BATCH=1)
    asked = ScriptedModel(reading)
    model = counted(asked, runs=48)
    for _ in range(3):
        for _ in range(4):
            await consolidate_all(memory, model, "jobs")
            clock.advance(hours=6)
    first = list(dict.fromkeys(contents(prompt)[0].split()[0].lower() for prompt in asked.prompts))
    assert first == order, "whoever waits longest comes first"
    assert len(asked.prompts) == 120 and set(await statuses(owner)) == {"consolidated"}


@pytest.mark.contract("L29")
async def test_one_tenant_does_not_use_up_everybodys_budget(
    memory, lineage, stranger, owner, clock, counted, set_limits
):
    set_limits(CONSOLIDATION_BATCH=1)
    for number in range(9):
        await tell(memory, lineage, f"Person{number} likes tea")
    model = counted(ScriptedModel(reading), runs=8, each=SpendingLimits(runs=5))
    greedy = await run_consolidation(memory, model, lineage)
    assert greedy.episodes_consolidated == 5
    assert greedy.errors == [
        "general: today's tenant's budget is used up: 5 of the 5 that one tenant's share "
        "of memory.daily_max_runs allows; it starts anew at 00:00 UTC"
    ]
    await tell(memory, stranger, "Eve likes tea")
    reports = await consolidate_all(memory, model, "jobs")
    assert reports[stranger.tenant_id].episodes_consolidated == 1
    assert {row["attempts"] for row in await states(owner)} == {0}
