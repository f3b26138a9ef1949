"""Run the jobs of one butler on schedule, each tick once, in one of the processes that serve it.

What is due is decided under a lock in the database. A run has a lease that its process renews, so
that another process takes over when it dies.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog

from butlers.clock import Clock, utc_now
from butlers.db.lease import Renewal, to_its_end
from butlers.db.postgres import Database, Transaction
from butlers.errors import BudgetExhausted, ButlersError, Conflict, InvalidInput, NotFound
from butlers.jobs import policy
from butlers.jobs import runs as jobs
from butlers.jobs.policy import Cause, Claim, RunOutcome, Step
from butlers.jobs.runs import Ending, Hold, Run
from butlers.module import Job, NotRun

log = structlog.get_logger(__name__)

KEPT_RUNS = 200
LOST = "its lease was lost: another process took it over, or the database was away too long"


@dataclass(frozen=True, slots=True)
class ScheduleIntervals:
    """The lease of a run, the pause between looks, and how long a stop waits for runs."""

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
    """The jobs of one butler, run when they are due or on request."""

    def __init__(
        self,
        database: Database,
        planned: Sequence[Job],
        *,
        clock: Clock = utc_now,
        worker: str = "",
        pace: ScheduleIntervals | None = None,
        when_ended: Callable[[str, RunOutcome], None] = lambda job, outcome: None,
    ) -> None:
        self._database, self._clock, self._when_ended = database, clock, when_ended
        self._jobs = {job.name: job for job in planned}
        self._pace = pace or ScheduleIntervals()
        self._worker = worker or f"{socket.gethostname()}:{os.getpid()}"
        self._since: dict[str, datetime] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def keep(self, stop: asyncio.Event) -> None:
        """Run jobs on time until `stop` is set; running ones then get a moment to end."""
        looking = asyncio.create_task(self._look_until(stop))
        try:
            await stop.wait()
        finally:
            # Not cancelled at once: a run that was just claimed would wait for its lease to end.
            await self._ended({looking})
            await self._ended(self._running)

    async def look(self) -> None:
        """Start in the background what is due now."""
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
        """Run a job to its end; Conflict if it is running already."""
        job = self._job(name)
        claim = await self._claim_requested(job)
        await self._run(job, claim)
        return next(run for run in await self.history([name], KEPT_RUNS) if run.id == claim.id)

    async def plan(self) -> list[Planned]:
        """List every job with its next and its last run."""
        latest = await jobs.find_latest(self._database, list(self._jobs))
        now = self._clock()
        return [
            Planned(job.name, job.cron, policy.next_tick(job.cron, now), latest.get(job.name))
            for job in self._jobs.values()
        ]

    async def history(self, names: Sequence[str] = (), limit: int = 20) -> list[Run]:
        """List runs of some jobs, or of all, newest first."""
        wanted = [self._job(name).name for name in names] or list(self._jobs)
        return await jobs.find_history(self._database, wanted, limit)

    async def settled(self) -> None:
        """Wait until no job runs in this process."""
        while self._running:
            await asyncio.wait(self._running)

    def _job(self, name: str) -> Job:
        if name not in self._jobs:
            known = ", ".join(self._jobs) or "none"
            raise NotFound(f"there is no job {name!r}; there are: {known}")
        return self._jobs[name]

    async def _look_until(self, stop: asyncio.Event) -> None:
        crons = [job.cron for job in self._jobs.values()]
        while not stop.is_set():
            try:
                await self.look()
            except Exception:  # noqa: BLE001  whatever it was, the next look may go well
                log.exception("the schedule stumbled")
            pause = policy.seconds_to_wait(crons, self._clock(), self._pace.look_seconds)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stop.wait()

    async def _claim_due(self, job: Job) -> Claim | None:
        async with self._database.system_transaction() as tx:
            await jobs.take_turn(tx, job=job.name)
            now = self._clock()
            since = await self._seen_since(tx, job, now)
            last = await jobs.last_fire_at(tx, job=job.name, now=now)
            due = policy.due_tick(job.cron, since, last, now)
            held, hold = await jobs.get_running(tx, job.name), self._hold(now)
            step = policy.decide(due, held, now)
            if step is Step.GIVE_UP and held is not None:
                await jobs.settle(tx, held, jobs.GONE, now)
                step = policy.decide(due, None, now)
            if step is Step.START and due is not None:
                return await jobs.start(tx, job.name, due, Cause.SCHEDULE, hold)
            if step is Step.TAKE_OVER and held is not None:
                return await jobs.take_over(tx, held, hold)
            if step is Step.SKIP and due is not None and held is not None:
                reason = f"the run of {held.fire_at:%Y-%m-%d %H:%M:%S} was still under way"
                skipped = {"job": job.name, "fire_at": due, "reason": reason}
                await jobs.skip(tx, worker=self._worker, now=now, **skipped)
        return None

    async def _seen_since(self, tx: Transaction, job: Job, now: datetime) -> datetime:
        """Return since when ticks count; read again only if the clock was set back."""
        known = self._since.get(job.name)
        if known is None or known > now:
            await jobs.see_schedule(tx, job=job.name, cron=job.cron, now=now)
            known = await jobs.get_since(tx, job=job.name)
            self._since[job.name] = known
        return known

    async def _claim_requested(self, job: Job) -> Claim:
        async with self._database.system_transaction() as tx:
            await jobs.take_turn(tx, job=job.name)
            now = self._clock()
            held = await jobs.get_running(tx, job.name)
            if held is not None and held.lease_until > now:
                raise Conflict(
                    f"{job.name} is being run by {held.worker}; `butlers jobs` shows when it ended"
                )
            if held is not None:
                await jobs.settle(tx, held, jobs.GONE, now)
            return await jobs.start(tx, job.name, now, Cause.REQUEST, self._hold(now))

    def _hold(self, now: datetime) -> Hold:
        return Hold(self._worker, now, now + timedelta(seconds=self._pace.lease_seconds))

    async def _renew(self, claim: Claim) -> bool:
        async with self._database.system_transaction() as tx:
            until = self._hold(self._clock()).lease_until
            return await jobs.renew(tx, id=claim.id, attempt=claim.attempt, lease_until=until) == 1

    def _begin(self, job: Job, claim: Claim) -> None:
        task = asyncio.create_task(self._run(job, claim))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, job: Job, claim: Claim) -> None:
        """Run a job that is ours and record how it ended; raise only if cancelled."""
        try:
            ending = await self._ending(job, claim)
        except asyncio.CancelledError:
            await to_its_end(self._settle(claim, jobs.STOPPED))
            raise
        await self._settle(claim, ending)

    async def _ending(self, job: Job, claim: Claim) -> Ending:
        async def work() -> dict[str, Any]:
            return await job.run()

        renew = partial(self._renew, claim)
        renewal = Renewal(job.name, self._pace.lease_seconds, renew, LOST)
        try:
            return jobs.ending_of(await renewal.while_held(work()))
        except (NotRun, BudgetExhausted) as reason:
            return jobs.skipped(reason)
        except ButlersError as error:
            log.warning("a job failed", job=job.name, error=str(error))
            return jobs.failed(error)
        except Exception as error:  # noqa: BLE001  a job that fails is a line in the history
            log.exception("a job failed", job=job.name)
            return jobs.failed(error)

    async def _settle(self, claim: Claim, ending: Ending) -> None:
        """Record how a run ended if it is still ours; if that fails, its lease ends it."""
        try:
            try:
                await self._record(claim, ending)
            except InvalidInput:
                # The database cannot store the result, for example because of a NUL.
                await self._record(claim, replace(ending, result=None))
        except ButlersError as error:
            log.warning("a run could not be put on record", job=claim.job, error=str(error))
        self._when_ended(claim.job, ending.outcome)

    async def _record(self, claim: Claim, ending: Ending) -> None:
        async with self._database.system_transaction() as tx:
            await jobs.settle(tx, claim, ending, self._clock())
            await jobs.prune(tx, job=claim.job, kept=KEPT_RUNS)

    async def _ended(self, tasks: set[asyncio.Task[None]]) -> None:
        """Wait a moment for tasks to end, then cancel the rest."""
        if tasks:
            waited = set(tasks)
            _, late = await asyncio.wait(waited, timeout=self._pace.grace_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*waited, return_exceptions=True)
