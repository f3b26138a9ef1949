"""The memory's own jobs, run by the schedule: what they change, and what is told of it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from butlers.db.postgres import Database
from butlers.errors import Conflict
from butlers.jobs.policy import RunOutcome, jobs_of
from butlers.jobs.runs import Run
from butlers.jobs.schedule import Schedule
from butlers.jobs.spending import CountedModel, Spending
from butlers.kernel.sections import SpendingLimits
from butlers.llm import LanguageModel
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.module import MemoryModule
from butlers.memory.operations import OperationContext, upkeep
from butlers.memory.settings import MemoryModuleConfig
from butlers.module import ButlerEnvironment
from butlers.settings.sections import ButlerSettings
from conftest import WalkingClock
from memory.audit_stream import event_types, events
from memory.consolidation_stories import follow, know, states, statuses, tell
from memory.scripted_model import ScriptedModel, answer, fact, failing


class Keeper:
    """The schedule of a butler that has the memory module, as its settings have it."""

    def __init__(
        self,
        core: Database,
        memory: Memory,
        model: LanguageModel | None = None,
        schedule: dict[str, Any] | None = None,
    ) -> None:
        self.settings = ButlerSettings.model_validate(
            {"butler": {"name": "general", "schedule": schedule or {}}}
        )
        module = MemoryModule(ButlerEnvironment("general", language_model=model))
        module._memory = memory
        self.jobs = jobs_of(self.settings, [module])
        self.schedule = Schedule(core, self.jobs, clock=memory.now)

    async def look(self) -> None:
        await self.schedule.look()
        await self.schedule.settled()

    async def last(self, name: str) -> Run:
        return (await self.schedule.history([name]))[0]


def morning(day: int, hour: int) -> datetime:
    return datetime(2026, 1, day, hour, tzinfo=UTC)


@pytest.mark.contract("P3", "L23")
async def test_the_butlers_own_times_win_and_never_means_only_when_asked(
    core: Database, memory: Memory
) -> None:
    schedule = {"decay_sweep": {"cron": "0 1 * * *"}, "episode_cleanup": {"cron": ""}}
    keeper = Keeper(core, memory, schedule=schedule)
    assert {job.name: job.cron for job in keeper.jobs} == {
        "consolidate": "0 */6 * * *",
        "decay_sweep": "0 1 * * *",
        "episode_cleanup": "",
        "check_store": "30 4 * * *",
    }


@pytest.mark.contract("R32.1", "P3", "N7.3")
async def test_the_decay_sweep_runs_daily_for_every_tenant(
    core: Database,
    memory: Memory,
    lineage: Lineage,
    stranger: Lineage,
    clock: WalkingClock,
    owner: asyncpg.Connection,
) -> None:
    for whose in (lineage, stranger):
        await know(memory, whose, "Ann", "drinks", "tea", permanence="volatile")
        await know(memory, whose, "Ann", "owns", "a teapot", permanence="stable")
        await follow(memory, whose, "offer tea")
    await owner.execute(
        "update facts set decay_rate = 0.01 where permanence = 'stable'; "
        "update rules set decay_rate = 0.1"
    )
    keeper = Keeper(core, memory)
    await keeper.look()
    clock.now = datetime(2026, 8, 1, 3, tzinfo=UTC)
    await keeper.look()
    run = await keeper.last("decay_sweep")
    assert (run.outcome, run.fire_at) == (RunOutcome.OK, clock.now)
    assert run.result is not None
    assert (run.result["tenants"], run.result["facts_checked"]) == (2, 4)
    assert (run.result["facts_expired"], run.result["facts_fading"]) == (2, 2)
    assert (run.result["rules_checked"], run.result["rules_forgotten"]) == (2, 2)
    states = await owner.fetch(
        "select distinct permanence, validity, metadata ->> 'status' from facts order by 1"
    )
    assert [tuple(row) for row in states] == [
        ("stable", "active", "fading"),
        ("volatile", "expired", None),
    ]
    assert await owner.fetchval("select bool_and(metadata -> 'forgotten' = 'true') from rules")
    actors = await owner.fetch("select distinct actor from memory_events order by actor desc")
    assert "schedule:decay_sweep" in [row["actor"] for row in actors]


@pytest.mark.contract("R32.2", "P3", "N7.3")
async def test_episodes_are_cleaned_up_daily(
    core: Database, memory: Memory, lineage: Lineage, clock: WalkingClock, owner: asyncpg.Connection
) -> None:
    read, unread = await tell(memory, lineage), await tell(memory, lineage)
    await owner.execute(
        "update episodes set consolidated = true, consolidation_status = 'consolidated' "
        "where id = $1",
        read,
    )
    keeper = Keeper(core, memory)
    await keeper.look()
    for day, left, kept in ((11, 2, 0), (15, 2, 0), (16, 2, 1), (17, 2, 0), (18, 1, 0)):
        clock.now = morning(day, 3)
        await keeper.schedule.run_now("decay_sweep")
        clock.now = morning(day, 4)
        await keeper.look()
        run = await keeper.last("episode_cleanup")
        assert (run.outcome, run.fire_at) == (RunOutcome.OK, clock.now)
        assert run.result is not None
        assert run.result["remaining"] == left
        assert kept == 0 or await event_types(owner, unread) == ["episode_created", "episode_kept"]
    assert [row["id"] for row in await owner.fetch("select id from episodes")] == [unread]
    clock.advance(days=30)
    run = await keeper.schedule.run_now("episode_cleanup")
    assert run.result is not None
    assert run.result["bin_emptied"] == 1
    assert await event_types(owner, read) == [
        "episode_created", "episode_expired", "episode_deleted"
    ]  # fmt: skip


@pytest.mark.contract("L25")
async def test_whichever_job_runs_keeps_what_nobody_has_read(
    core: Database, memory: Memory, lineage: Lineage, clock: WalkingClock, owner: asyncpg.Connection
) -> None:
    keeper = Keeper(core, memory)
    for job in ("consolidate", "decay_sweep", "episode_cleanup"):
        episode = await tell(memory, lineage)
        clock.advance(days=6)
        await keeper.schedule.run_now(job)
        assert (await event_types(owner, episode))[1] == "episode_kept"


@pytest.mark.contract("L25")
async def test_a_cleanup_warns_of_what_nobody_reads(
    core: Database,
    memory: Memory,
    lineage: Lineage,
    clock: WalkingClock,
    set_limits: Callable[..., None],
) -> None:
    set_limits(MAX_UNREAD_EPISODES=2)
    await tell(memory, lineage)
    keeper = Keeper(core, memory)
    run = await keeper.schedule.run_now("episode_cleanup")
    assert run.result is not None and "warnings" not in run.result
    await tell(memory, lineage)
    clock.advance(minutes=1)
    run = await keeper.schedule.run_now("episode_cleanup")
    assert run.outcome is RunOutcome.OK
    assert run.result is not None
    assert run.result["warnings"] == [
        "acme: 2 of 2 unread episodes, 0 of 1,000 MB: beyond that the oldest expire unread"
    ]


@pytest.mark.contract("L42")
async def test_with_the_clock_in_doubt_nothing_expires_and_it_is_said(
    core: Database, memory: Memory, lineage: Lineage, clock: WalkingClock, owner: asyncpg.Connection
) -> None:
    await know(memory, lineage, "Ann", "drinks", "tea", permanence="ephemeral")
    read, unread = await tell(memory, lineage), await tell(memory, lineage)
    await owner.execute(
        "update episodes set consolidated = true, consolidation_status = 'consolidated' "
        "where id = $1",
        read,
    )
    keeper, before = Keeper(core, memory), await events(owner)

    async def doubted() -> str | None:
        return "the clock says 2036"

    memory.clock_doubt = doubted
    clock.advance(days=3650)
    for job in ("decay_sweep", "episode_cleanup"):
        run = await keeper.schedule.run_now(job)
        assert (run.outcome, run.error) == (RunOutcome.SKIPPED, "the clock says 2036")
    told = (await events(owner))[len(before) :]
    assert [(one["event_type"], one["memory_id"]) for one in told] == [("episode_kept", unread)]
    with pytest.raises(Conflict, match="the clock says 2036"):
        await upkeep.run_episode_cleanup.perform(OperationContext(memory, lineage))


@pytest.mark.contract("R32.2")
async def test_what_is_beyond_the_limit_is_cleaned_up_daily_too(
    core: Database, memory: Memory, lineage: Lineage, clock: WalkingClock, owner: asyncpg.Connection
) -> None:
    memory.settings = MemoryModuleConfig.model_validate({"episodes": {"max_entries": 1}})
    for content in ("read first", "read then", "never read"):
        await tell(memory, lineage, content)
        clock.advance(minutes=1)
    await owner.execute(
        "update episodes set consolidated = true, consolidation_status = 'consolidated' "
        "where content <> 'never read'"
    )
    keeper = Keeper(core, memory)
    await keeper.look()
    clock.now = morning(11, 4)
    await keeper.look()
    run = await keeper.last("episode_cleanup")
    assert run.result is not None
    assert (run.result["expired_deleted"], run.result["capacity_deleted"]) == (0, 2)
    left = await owner.fetch("select content from episodes")
    assert [row["content"] for row in left] == ["never read"]


@pytest.mark.contract("P3", "N4.2")
async def test_episodes_are_consolidated_every_six_hours(
    core: Database, memory: Memory, lineage: Lineage, clock: WalkingClock, owner: asyncpg.Connection
) -> None:
    model = ScriptedModel(answer(new_facts=[fact("Ann", "drinks", "tea")]))
    keeper = Keeper(core, memory, model)
    await tell(memory, lineage)
    await keeper.look()
    assert model.prompts == []
    clock.advance(hours=6)
    await keeper.look()
    run = await keeper.last("consolidate")
    assert run.outcome is RunOutcome.OK
    assert run.result is not None
    assert (run.result["episodes_consolidated"], run.result["facts_created"]) == (1, 1)
    assert await statuses(owner) == ["consolidated"]


async def test_without_a_model_consolidation_is_skipped_and_says_what_waits(
    core: Database,
    memory: Memory,
    lineage: Lineage,
    stranger: Lineage,
    clock: WalkingClock,
    owner: asyncpg.Connection,
) -> None:
    keeper = Keeper(core, memory)
    run = await keeper.schedule.run_now("consolidate")
    assert run.outcome is RunOutcome.SKIPPED
    assert run.error == "no model (nothing waits); name one in [runtime] of butler.toml"
    await tell(memory, lineage)
    clock.advance(hours=3)
    run = await keeper.schedule.run_now("consolidate")
    assert (run.error or "").startswith("no model (1 waits; oldest 3 hours)")
    clock.advance(days=6)
    await tell(memory, stranger)
    run = await keeper.schedule.run_now("consolidate")
    assert run.outcome is RunOutcome.SKIPPED
    assert (run.error or "").startswith("no model (2 wait; oldest 6 days)")
    assert await statuses(owner) == ["pending", "pending"]


async def test_a_consolidation_whose_session_fails_is_a_failed_run(
    core: Database, memory: Memory, lineage: Lineage
) -> None:
    await tell(memory, lineage)
    run = await Keeper(core, memory, failing()).schedule.run_now("consolidate")
    assert run.outcome is RunOutcome.FAILED
    assert run.error == "acme: general: the session ended with status 1"
    assert run.result is not None
    assert run.result["episodes_failed"] == 1


async def test_with_the_budget_used_up_nothing_is_claimed_and_no_attempt_counts(
    core: Database, memory: Memory, lineage: Lineage, clock: WalkingClock, owner: asyncpg.Connection
) -> None:
    scripted = ScriptedModel(answer(new_facts=[fact("Ann", "drinks", "tea")]))
    model = CountedModel(scripted, Spending(lambda: core, SpendingLimits(runs=1), clock))
    keeper = Keeper(core, memory, model)
    await tell(memory, lineage)
    assert (await keeper.schedule.run_now("consolidate")).outcome is RunOutcome.OK
    await tell(memory, lineage, "Ann moved to Oslo")
    clock.advance(minutes=1)
    run = await keeper.schedule.run_now("consolidate")
    assert run.outcome is RunOutcome.SKIPPED
    assert "today's budget is used up: 1 of the 1" in (run.error or "")
    assert len(scripted.prompts) == 1
    assert [row["attempts"] for row in await states(owner)] == [0, 0]
    assert await statuses(owner) == ["consolidated", "pending"]


async def test_a_budget_that_ends_half_way_costs_no_attempt(
    core: Database,
    memory: Memory,
    lineage: Lineage,
    stranger: Lineage,
    clock: WalkingClock,
    owner: asyncpg.Connection,
) -> None:
    model = CountedModel(
        ScriptedModel(answer()), Spending(lambda: core, SpendingLimits(runs=1), clock)
    )
    for whose in (lineage, stranger):
        await tell(memory, whose)
    run = await Keeper(core, memory, model).schedule.run_now("consolidate")
    assert run.outcome is RunOutcome.PARTIAL
    assert "rival: general: today's budget is used up" in (run.error or "")
    assert sorted(await statuses(owner)) == ["consolidated", "pending"]
    assert [row["attempts"] for row in await states(owner)] == [0, 0]


@pytest.mark.contract("N4.4")
async def test_every_night_some_of_the_store_is_checked(
    core: Database, memory: Memory, owner: asyncpg.Connection, lineage: Lineage, clock: WalkingClock
) -> None:
    await know(memory, lineage, "Ann", "likes", "tea")
    keeper = Keeper(core, memory)
    run = await keeper.schedule.run_now("check_store")
    assert run.outcome is RunOutcome.OK
    assert run.result is not None and run.result["checked"] > 0
    await owner.execute("update facts set validity = 'expired'")
    clock.advance(days=1)
    run = await keeper.schedule.run_now("check_store")
    assert run.outcome is RunOutcome.FAILED
    assert run.result is not None
    assert "its events make it active" in run.result["errors"][0]
