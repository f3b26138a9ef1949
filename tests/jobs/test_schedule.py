"""The schedule over a real database and a clock to walk: once, caught up, never overlapping."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from butlers.db.postgres import Database
from butlers.errors import BudgetExhausted, Conflict, NotFound, Unavailable
from butlers.jobs.policy import MAX_ATTEMPTS, NO_SESSIONS, Cause, RunOutcome, jobs_of
from butlers.jobs.schedule import KEPT_RUNS, Schedule, ScheduleIntervals
from butlers.module import Job
from conftest import WalkingClock
from host.toy_modules import settings_for, toy

DAILY = "0 3 * * *"
Work = Callable[[], Awaitable[dict[str, Any]]]


class Worker:
    """A process's schedule of one job, and how often the job was begun."""

    def __init__(
        self, core: Database, clock: WalkingClock, work: Work | None = None, cron: str = DAILY
    ) -> None:
        self.begun = 0
        self._work = work

        async def run() -> dict[str, Any]:
            self.begun += 1
            return await work() if work else {"done": self.begun}

        self.schedule = Schedule(
            core, [Job("sweep", cron, run)], clock=clock, pace=ScheduleIntervals(60, 1, 0)
        )

    async def look(self) -> None:
        await self.schedule.look()
        await self.schedule.settled()

    async def outcomes(self) -> list[tuple[str, datetime]]:
        runs = await self.schedule.history(limit=KEPT_RUNS)
        return [(run.outcome.value, run.fire_at) for run in reversed(runs)]


@pytest.fixture
def worker(core: Database, clock: WalkingClock) -> Worker:
    return Worker(core, clock)


def at(day: int, hour: int = 3, minute: int = 0) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


@pytest.mark.contract("P3", "L23")
async def test_a_schedule_seen_for_the_first_time_fires_nothing_of_the_past(
    worker: Worker, clock: WalkingClock
) -> None:
    await worker.look()
    assert await worker.outcomes() == []
    clock.now = at(11)
    await worker.look()
    await worker.look()
    assert await worker.outcomes() == [("ok", at(11))]


@pytest.mark.contract("L23")
async def test_what_was_missed_is_caught_up_once_by_the_newest_tick(
    worker: Worker, core: Database, clock: WalkingClock
) -> None:
    await worker.look()
    clock.now = at(20, hour=17)
    restarted = Worker(core, clock)
    await restarted.look()
    await restarted.look()
    assert await restarted.outcomes() == [("ok", at(20))]
    clock.now = at(21)
    await restarted.look()
    assert await restarted.outcomes() == [("ok", at(20)), ("ok", at(21))]


@pytest.mark.contract("L23")
async def test_many_who_look_at_once_run_a_tick_once(core: Database, clock: WalkingClock) -> None:
    workers = [Worker(core, clock) for _ in range(6)]
    await asyncio.gather(*(worker.look() for worker in workers))
    clock.now = at(11)
    await asyncio.gather(*(worker.look() for worker in workers))
    assert sum(worker.begun for worker in workers) == 1
    assert await workers[0].outcomes() == [("ok", at(11))]


async def test_another_cron_counts_from_when_it_was_seen(
    worker: Worker, core: Database, clock: WalkingClock
) -> None:
    await worker.look()
    clock.now = at(11, hour=6)
    changed = Worker(core, clock, cron="0 5 * * *")
    await changed.look()
    assert changed.begun == 0
    clock.now = at(12, hour=5)
    await changed.look()
    assert await changed.outcomes() == [("ok", at(12, hour=5))]


class Gate:
    """Work that goes on until it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = False

    async def __call__(self) -> dict[str, Any]:
        self.begun.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return {}


async def test_a_job_never_overlaps_itself_and_the_skipped_tick_is_on_record(
    core: Database, clock: WalkingClock
) -> None:
    gate = Gate()
    slow = Worker(core, clock, gate, cron="* * * * *")
    await slow.schedule.look()
    clock.advance(minutes=1)
    await slow.schedule.look()
    await gate.begun.wait()
    clock.advance(seconds=59.5)
    other = Worker(core, clock, cron="* * * * *")
    await other.look()
    assert other.begun == 0
    clock.advance(seconds=0.4)
    gate.open.set()
    await slow.schedule.settled()
    assert [word for word, _ in await slow.outcomes()] == ["ok"]
    clock.advance(seconds=0.1)
    await other.look()
    assert [word for word, _ in await slow.outcomes()] == ["ok", "ok"]


async def test_a_tick_that_finds_the_job_under_way_is_skipped(
    core: Database, clock: WalkingClock
) -> None:
    gate = Gate()
    slow = Worker(core, clock, gate, cron="*/30 * * * * *")
    await slow.schedule.look()
    clock.advance(seconds=30)
    await slow.schedule.look()
    clock.advance(seconds=30)
    await slow.schedule.look()
    gate.open.set()
    await slow.schedule.settled()
    first, second = reversed(await slow.schedule.history())
    assert (first.outcome, second.outcome) == (RunOutcome.OK, RunOutcome.SKIPPED)
    assert second.error == "the run of 2026-01-10 12:00:30 was still under way"
    assert slow.begun == 1


async def dies(core: Database, clock: WalkingClock, cron: str = DAILY) -> None:
    """A process claims what is due, and is gone."""
    doomed = Worker(core, clock, cron=cron)
    doomed.schedule._begin = lambda job, claim: None  # type: ignore[method-assign]
    await doomed.schedule.look()


async def test_the_run_of_a_process_that_died_is_taken_over_thrice_at_most(
    worker: Worker, core: Database, clock: WalkingClock
) -> None:
    await worker.look()
    clock.now = at(11)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        await dies(core, clock)
        assert (await worker.schedule.history())[0].attempt == attempt
        clock.advance(seconds=59)
        await worker.look()
        assert worker.begun == 0
        clock.advance(seconds=1)
    await worker.look()
    (run,) = await worker.schedule.history()
    assert (run.outcome, run.attempt) == (RunOutcome.FAILED, MAX_ATTEMPTS)
    assert run.error == "the process that ran it ended before it was done"
    assert worker.begun == 0


async def test_a_newer_tick_does_the_work_of_a_run_that_was_abandoned(
    worker: Worker, core: Database, clock: WalkingClock
) -> None:
    await worker.look()
    clock.now = at(11)
    await dies(core, clock)
    clock.now = at(14, hour=9)
    await worker.look()
    assert await worker.outcomes() == [("failed", at(11)), ("ok", at(14))]


async def test_who_lost_the_lease_stops_working_and_changes_nothing(
    core: Database, clock: WalkingClock, core_owner: asyncpg.Connection
) -> None:
    gate = Gate()
    slow = Worker(core, clock, gate)
    slow.schedule._pace = ScheduleIntervals(lease_seconds=0.3)
    await slow.schedule.look()
    clock.now = at(11)
    await slow.schedule.look()
    await gate.begun.wait()
    await core_owner.execute("update job_runs set attempt = 2, worker = 'another'")
    await asyncio.wait_for(slow.schedule.settled(), 5)
    assert gate.cancelled
    (run,) = await slow.schedule.history()
    assert (run.outcome, run.worker, run.attempt) == (RunOutcome.RUNNING, "another", 2)


@pytest.mark.parametrize(
    ("failure", "outcome", "told"),
    [
        (Unavailable("the model is away\nfor now"), "failed", "the model is away for now"),
        (ValueError("a secret"), "failed", "unexpected ValueError; the log says more"),
        (BudgetExhausted("spent"), "skipped", "spent"),
    ],
)
async def test_a_job_that_fails_is_a_line_in_the_history(
    core: Database, clock: WalkingClock, failure: Exception, outcome: str, told: str
) -> None:
    async def fails() -> dict[str, Any]:
        raise failure

    worker = Worker(core, clock, fails)
    run = await worker.schedule.run_now("sweep")
    assert (run.outcome, run.error) == (outcome, told)
    clock.advance(days=1)
    await worker.look()
    await worker.look()
    assert worker.begun == 1


@pytest.mark.parametrize(
    ("result", "outcome", "error", "kept"),
    [
        ({"errors": []}, "ok", None, {"errors": []}),
        ({"errors": ["one", "two"]}, "failed", "one (and 1 more)", {"errors": ["one", "two"]}),
        ({"x": "y" * 30_000}, "ok", None, {"left_out": "the result was too long to keep"}),
        ({"x": "\0"}, "ok", None, None),
        ({"x": float("nan")}, "failed", "unexpected ValueError; the log says more", None),
    ],
)
async def test_what_a_job_returns_is_kept(
    core: Database,
    clock: WalkingClock,
    result: dict[str, Any],
    outcome: str,
    error: str | None,
    kept: object,
) -> None:
    async def work() -> dict[str, Any]:
        return result

    run = await Worker(core, clock, work).schedule.run_now("sweep")
    assert (run.outcome, run.error, run.result) == (outcome, error, kept)


async def test_a_run_that_was_asked_for_is_on_record_and_stands_for_the_ticks_before_it(
    worker: Worker, clock: WalkingClock
) -> None:
    await worker.look()
    clock.now = at(11, hour=4)
    run = await worker.schedule.run_now("sweep")
    assert (run.cause, run.outcome, run.fire_at) == (Cause.REQUEST, RunOutcome.OK, clock.now)
    clock.advance(minutes=1)
    await worker.look()
    assert worker.begun == 1
    clock.now = at(12)
    await worker.look()
    assert worker.begun == 2


async def test_a_job_that_is_under_way_cannot_be_asked_for(
    worker: Worker, core: Database, clock: WalkingClock
) -> None:
    await worker.look()
    clock.now = at(11)
    await dies(core, clock)
    clock.advance(seconds=30)
    with pytest.raises(Conflict, match="sweep is being run by"):
        await worker.schedule.run_now("sweep")
    clock.advance(seconds=30)
    assert (await worker.schedule.run_now("sweep")).outcome is RunOutcome.OK
    assert [word for word, _ in await worker.outcomes()] == ["failed", "ok"]


async def test_a_job_nobody_knows_is_refused(worker: Worker) -> None:
    with pytest.raises(NotFound, match="there is no job 'sleep'; there are: sweep"):
        await worker.schedule.run_now("sleep")


async def test_only_the_newest_runs_are_kept(
    worker: Worker, clock: WalkingClock, core_owner: asyncpg.Connection
) -> None:
    await core_owner.execute(
        "insert into job_runs (job, fire_at, cause, outcome, worker, lease_until, started_at, "
        "finished_at) select 'sweep', $1::timestamptz - n * interval '1 day', 'schedule', 'ok', "
        "'w', $1, $1, $1 from generate_series(300, 1, -1) n",
        clock.now,
    )
    await worker.schedule.run_now("sweep")
    runs = await worker.schedule.history(limit=1000)
    assert len(runs) == KEPT_RUNS
    assert runs[0].cause is Cause.REQUEST
    assert runs[-1].fire_at == clock.now - timedelta(days=KEPT_RUNS - 1)


async def test_a_clock_that_ran_ahead_and_was_set_back_is_forgiven(
    worker: Worker, core: Database, clock: WalkingClock
) -> None:
    await worker.look()
    clock.now = at(11) + timedelta(days=365)
    await worker.look()
    ahead = Worker(core, clock, cron="0 4 * * *")
    await ahead.look()
    clock.now = at(12, hour=1)
    for _ in range(4):
        await worker.look()
        await ahead.look()
        clock.advance(hours=1)
    begun = [fire_at for _, fire_at in await worker.outcomes()]
    assert begun[0].year == 2027
    assert at(12) in begun
    assert len(begun) == len(set(begun))


async def test_the_schedule_is_kept_until_told_to_stop(core: Database) -> None:
    """With the real clock: a job every second, one that fails, one that would not end."""
    gate, ran = Gate(), asyncio.Event()

    async def good() -> dict[str, Any]:
        ran.set()
        return {}

    async def bad() -> dict[str, Any]:
        raise RuntimeError

    every = "* * * * * *"
    planned = [Job("bad", every, bad), Job("good", every, good), Job("gate", every, gate)]
    schedule = Schedule(core, planned, pace=ScheduleIntervals(5, 0.2, 0.1))
    stop = asyncio.Event()
    keeping = asyncio.create_task(schedule.keep(stop))
    async with asyncio.timeout(20):
        for _ in range(2):
            ran.clear()
            await ran.wait()
        await gate.begun.wait()
        stop.set()
        await keeping
    latest = {job.name: job.last for job in await schedule.plan() if job.last}
    assert latest["good"].outcome is RunOutcome.OK
    assert latest["bad"].outcome is RunOutcome.FAILED
    gates = [
        run for run in await schedule.history(["gate"]) if run.outcome is not RunOutcome.SKIPPED
    ]
    assert [(run.outcome, run.error) for run in gates] == [
        (RunOutcome.FAILED, "stopped before it was done")
    ]


async def test_a_database_that_is_away_does_not_end_the_schedule(
    core: Database, clock: WalkingClock
) -> None:
    async def fails() -> Any:
        raise Unavailable("away")

    worker = Worker(core, clock)
    worker.schedule._claim_due = lambda job: fails()  # type: ignore[method-assign]
    await worker.look()
    del worker.schedule._claim_due
    await worker.look()
    clock.advance(days=1)
    await worker.look()
    assert worker.begun == 1


@pytest.mark.contract("P3", "L23")
async def test_the_plan_tells_what_runs_when(core: Database, clock: WalkingClock) -> None:
    async def nothing() -> dict[str, Any]:
        return {}

    schedule = Schedule(core, [Job("a", DAILY, nothing), Job("b", "", nothing)], clock=clock)
    await schedule.run_now("b")
    a, b = await schedule.plan()
    assert (a.next_at, a.last) == (at(11), None)
    assert b.next_at is None
    assert b.last is not None
    assert b.last.outcome is RunOutcome.OK


# Which jobs there are


async def _nothing() -> dict[str, Any]:
    return {}


def with_jobs(name: str, **crons: str) -> Any:
    jobs = [Job(job, cron, _nothing) for job, cron in crons.items()]
    return toy(name, jobs=lambda self: jobs)


@pytest.mark.contract("L23")
async def test_a_prompt_is_handed_to_whoever_runs_sessions(
    core: Database, clock: WalkingClock
) -> None:
    async def run_prompt(name: str, prompt: str) -> dict[str, Any]:
        return {"name": name, "asked": prompt}

    settings = settings_for(
        butler={"name": "toys", "schedule": {"report": {"cron": DAILY, "prompt": "Report"}}}
    )
    without = Schedule(core, jobs_of(settings, []), clock=clock)
    run = await without.run_now("report")
    assert (run.outcome, run.error) == (RunOutcome.SKIPPED, NO_SESSIONS)
    clock.advance(seconds=1)
    run = await Schedule(core, jobs_of(settings, [], run_prompt), clock=clock).run_now("report")
    assert run.result == {"name": "report", "asked": "Report"}


def test_a_module_may_bring_jobs_that_no_setting_knows() -> None:
    module = with_jobs("a", tidy=DAILY)
    jobs = jobs_of(settings_for(module), [module(None)])
    assert [(job.name, job.cron) for job in jobs] == [("tidy", DAILY)]
