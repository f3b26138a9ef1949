"""The schedule of one butler: each tick of a job runs once, whoever else serves the butler.

What is due is decided under a lock in the database, by arithmetic alone; a run is held on a
lease that its process renews, so that the run of a process that died is taken over.
"""

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from butlers.clock import Clock, utc_now
from butlers.db.postgres import Database, Transaction
from butlers.errors import BudgetExhausted, ButlersError, Conflict, NotFound, Unavailable
from butlers.host import jobs
from butlers.host import schedule_policy as policy
from butlers.host.job_list import NotRun
from butlers.host.jobs import Claim, Ending, Hold, Run
from butlers.host.schedule_policy import Cause, Held, Outcome, Step
from butlers.kernel.text import one_line
from butlers.module import Job

log = structlog.get_logger(__name__)

GONE = "the process that ran it ended before it was done"
STOPPED = "stopped before it was done"
LOST = "another process took it over meanwhile"

_KEPT_RUNS = 200
_MAX_ERROR = 500
_MAX_RESULT = 20_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a run is held, how often the schedule looks, how long a stop waits for runs."""

    lease_seconds: float = 60.0
    look_seconds: float = 30.0
    grace_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Planned:
    """A job, when it runs next and how it ran last."""

    name: str
    cron: str
    next_at: datetime | None
    last: Run | None


class Schedule:
    """The jobs of one butler, run when they are due or when somebody asks."""

    def __init__(
        self,
        database: Database,
        planned: Sequence[Job],
        *,
        clock: Clock = utc_now,
        worker: str = "",
        pace: Pace | None = None,
    ) -> None:
        self._database = database
        self._jobs = {job.name: job for job in planned}
        self._clock = clock
        self._worker = worker or f"{socket.gethostname()}:{os.getpid()}"
        self._pace = pace or Pace()
        self._since: dict[str, datetime] = {}
        self._running: dict[int, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Within this block jobs run on time; at the end those under way get a moment."""
        looking = asyncio.create_task(self._look_again_and_again())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            await self._stop_runs()

    async def look(self) -> None:
        """Begin, in the background, whatever is due now."""
        for job in self._jobs.values():
            if not job.cron:
                continue
            try:
                claim = await self._claim_due(job)
            except ButlersError as error:
                log.warning("a job could not be looked at", job=job.name, error=str(error))
                continue
            if claim is not None:
                self._begin(job, claim)

    async def run_now(self, name: str) -> Run:
        """Run a job to its end; Conflict when it is under way already."""
        job = self._job(name)
        claim = await self._claim_requested(job)
        await self._run(job, claim)
        history = await self.history([name], _KEPT_RUNS)
        return next(run for run in history if run.id == claim.id)

    async def plan(self) -> list[Planned]:
        """Every job with its next and its last run."""
        async with self._database.system_transaction() as tx:
            latest = await jobs.find_latest(tx, list(self._jobs))
        now = self._clock()
        return [
            Planned(job.name, job.cron, policy.next_tick(job.cron, now), latest.get(job.name))
            for job in self._jobs.values()
        ]

    async def history(self, names: Sequence[str] = (), limit: int = 20) -> list[Run]:
        """Runs of some jobs, or of all, the newest first."""
        wanted = [self._job(name).name for name in names] or list(self._jobs)
        async with self._database.system_transaction() as tx:
            return await jobs.find_history(tx, wanted, limit)

    async def settled(self) -> None:
        """Wait until no run of this process is under way."""
        while self._running:
            await asyncio.wait(list(self._running.values()))

    def _job(self, name: str) -> Job:
        if name not in self._jobs:
            known = ", ".join(self._jobs) or "none"
            raise NotFound(f"there is no job {name!r}; there are: {known}")
        return self._jobs[name]

    async def _look_again_and_again(self) -> None:
        crons = [job.cron for job in self._jobs.values()]
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001  whatever it was, the next look may go well
                log.exception("the schedule stumbled")
            pause = policy.seconds_to_wait(crons, self._clock(), self._pace.look_seconds)
            await asyncio.sleep(pause)

    async def _claim_due(self, job: Job) -> Claim | None:
        async with self._database.system_transaction() as tx:
            await jobs.take_turn(tx, job.name)
            now = self._clock()
            since = await self._seen_since(tx, job, now)
            last = await jobs.last_fire_at(tx, job.name, now)
            due = policy.due_tick(job.cron, since, last, now)
            return await self._act(tx, job, due, now)

    async def _seen_since(self, tx: Transaction, job: Job, now: datetime) -> datetime:
        """From when on ticks count; asked anew only if the clock was set back."""
        if job.name not in self._since or self._since[job.name] > now:
            self._since[job.name] = await jobs.see_schedule(tx, job.name, job.cron, now)
        return self._since[job.name]

    async def _act(
        self, tx: Transaction, job: Job, due: datetime | None, now: datetime
    ) -> Claim | None:
        held, hold = await jobs.held(tx, job.name), self._hold(now)
        step = policy.decide(due, held, now)
        if step is Step.GIVE_UP and held is not None:
            await self._give_up(tx, job, held, now)
            step = policy.decide(due, None, now)
        if step is Step.START and due is not None:
            return await jobs.start(tx, job.name, due, Cause.SCHEDULE, hold)
        if step is Step.TAKE_OVER and held is not None:
            return await jobs.take_over(tx, job.name, held, hold)
        if step is Step.SKIP and due is not None and held is not None:
            reason = f"the run of {held.fire_at:%Y-%m-%d %H:%M:%S} was still under way"
            await jobs.skip(tx, job.name, due, reason, hold)
        return None

    async def _claim_requested(self, job: Job) -> Claim:
        async with self._database.system_transaction() as tx:
            await jobs.take_turn(tx, job.name)
            now = self._clock()
            held = await jobs.held(tx, job.name)
            if held is not None and held.lease_until > now:
                raise Conflict(
                    f"{job.name} is being run by {held.worker}; `butlers jobs` shows when it ended"
                )
            if held is not None:
                await self._give_up(tx, job, held, now)
            return await jobs.start(tx, job.name, now, Cause.REQUEST, self._hold(now))

    async def _give_up(self, tx: Transaction, job: Job, held: Held, now: datetime) -> None:
        claim = Claim(held.id, job.name, held.attempt)
        await jobs.settle(tx, claim, Ending(Outcome.FAILED, GONE), now)

    def _hold(self, now: datetime) -> Hold:
        return Hold(self._worker, now, self._lease_end(now))

    def _lease_end(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self._pace.lease_seconds)

    def _begin(self, job: Job, claim: Claim) -> None:
        task = asyncio.create_task(self._run(job, claim))
        self._running[claim.id] = task
        task.add_done_callback(lambda _: self._running.pop(claim.id, None))

    async def _run(self, job: Job, claim: Claim) -> None:
        """Run a job that is ours and put on record how it ended; only being stopped raises."""
        try:
            ending = await self._ending(job, claim)
        except asyncio.CancelledError:
            await self._settle(claim, Ending(Outcome.FAILED, STOPPED))
            raise
        await self._settle(claim, ending)

    async def _ending(self, job: Job, claim: Claim) -> Ending:
        try:
            return _ending_of(await self._while_held(claim, _called(job)))
        except (NotRun, BudgetExhausted) as reason:
            return Ending(Outcome.SKIPPED, _told(reason))
        except ButlersError as error:
            log.warning("a job failed", job=job.name, error=_told(error))
            return Ending(Outcome.FAILED, _told(error))
        except Exception as error:  # noqa: BLE001  a job that fails is a line in the history
            log.exception("a job failed", job=job.name)
            # A stranger's message may quote what the job was reading.
            return Ending(Outcome.FAILED, f"unexpected {type(error).__name__}; the log says more")

    async def _while_held(
        self, claim: Claim, work: Coroutine[Any, Any, dict[str, Any]]
    ) -> dict[str, Any]:
        """What the work came to, its lease renewed meanwhile; a lost lease ends it."""
        working = asyncio.ensure_future(work)
        keeping = asyncio.ensure_future(self._keep(claim))
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            keeping.result()
            raise Conflict(LOST)
        finally:
            working.cancel()
            keeping.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)

    async def _keep(self, claim: Claim) -> None:
        """Renew the lease until it is lost, or lapses because the database stays away."""
        lease, held_at = self._pace.lease_seconds, time.monotonic()
        while time.monotonic() - held_at < lease:
            await asyncio.sleep(lease / 3)
            asked_at = time.monotonic()
            try:
                async with self._database.system_transaction() as tx:
                    if not await jobs.renew(tx, claim, self._lease_end(self._clock())):
                        return
            except Unavailable as error:
                log.warning("a lease was not renewed", job=claim.job, error=str(error))
            else:
                held_at = asked_at

    async def _settle(self, claim: Claim, ending: Ending) -> None:
        """Nothing happens if the run is no longer ours; its lease ends it if we cannot say so."""
        try:
            async with self._database.system_transaction() as tx:
                await jobs.settle(tx, claim, ending, self._clock())
                await jobs.prune(tx, claim.job, _KEPT_RUNS)
        except ButlersError as error:
            log.warning("a run could not be put on record", job=claim.job, error=str(error))

    async def _stop_runs(self) -> None:
        runs = list(self._running.values())
        if runs:
            _, late = await asyncio.wait(runs, timeout=self._pace.grace_seconds)
            for run in late:
                run.cancel()
            await asyncio.gather(*runs, return_exceptions=True)


async def _called(job: Job) -> dict[str, Any]:
    return await job.run()


def _ending_of(result: dict[str, Any]) -> Ending:
    """A result that lists errors is that of a failure."""
    kept = result if len(json.dumps(result)) <= _MAX_RESULT else {"too_long_to_keep": True}
    errors = result.get("errors")
    if not errors:
        return Ending(Outcome.OK, result=kept)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Ending(Outcome.FAILED, _line(f"{errors[0]}")[: _MAX_ERROR - len(more)] + more, kept)


def _told(error: Exception) -> str:
    return _line(str(error)) or type(error).__name__


def _line(text: str) -> str:
    return one_line(text)[:_MAX_ERROR]
