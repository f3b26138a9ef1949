"""Routes for the jobs of a butler: their schedule, their history, and running one now."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path
from starlette.requests import Request

from butlers.interfaces.http.access import ButlerAccess, CurrentAccess
from butlers.jobs.runs import Run
from butlers.memory.operations.results import Instant
from butlers.operation import Output

WAIT_SECONDS = 5.0
T = TypeVar("T")


class JobRuns:
    """Work that callers of this process started and may not wait for: jobs, backups, sessions."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Cancel the work that still runs at the end of the block."""
        try:
            yield
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def begin(self, run: Coroutine[Any, Any, T]) -> T | None:
        """Start work and return its result; None if it takes longer than a few seconds."""
        task = self.started(run)
        done, _ = await asyncio.wait({task}, timeout=WAIT_SECONDS)
        return task.result() if done else None

    def started(self, run: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start work and return its task."""
        task = asyncio.create_task(run)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


router = APIRouter(tags=["jobs"])
_SHOWN = 20
_OWNER_ONLY = "jobs affect the whole butler; only its own tenant may run them"


class JobRun(Output):
    """One run. Jobs work for every tenant, so only the operator sees the result: `error` and
    `result` are null for anybody else."""

    job: str
    cause: str
    outcome: str
    started_at: Instant
    finished_at: Instant | None
    error: str | None
    result: dict[str, Any] | None


class JobPlan(Output):
    """A job, its next run and its last one."""

    name: str
    cron: str
    next_at: Instant | None
    last: JobRun | None


class JobPlans(Output):
    """The jobs of a butler."""

    jobs: list[JobPlan]
    may_run: bool
    """Whether this caller may run one now."""
    clock_doubt: str | None = None
    """Why the clock may be wrong; irreversible jobs wait until it is accepted."""


class Jobs(JobPlans):
    """The jobs of a butler and their newest runs."""

    history: list[JobRun]


class JobAsked(Output):
    """A job that was started; `run` is null while it runs."""

    job: str
    run: JobRun | None


@router.get("/jobs", response_model=Jobs)
async def list_jobs(access: CurrentAccess) -> Any:
    """List every job with its next run, and the newest runs of all."""
    history = await access.butler.schedule().history(limit=_SHOWN)
    return {**await plan_of(access), "history": [_visible(run, access) for run in history]}


class ClockAccepted(Output):
    """The time that was accepted."""

    believed_at: Instant


@router.post("/jobs/clock", response_model=ClockAccepted)
async def accept_clock(access: CurrentAccess) -> Any:
    """Accept the clock as right: cleanup and decay sweep run again."""
    access.require_jobs(_OWNER_ONLY)
    return {"believed_at": await access.butler.clock_watch.accept()}


@router.post("/jobs/{job}/run", response_model=JobAsked)
async def run_job(
    access: CurrentAccess, request: Request, job: Annotated[str, Path(max_length=100)]
) -> Any:
    """Run a job now, for the whole butler; 409 while it is running."""
    access.require_jobs(_OWNER_ONLY)
    runs: JobRuns = request.app.state.job_runs
    run = await runs.begin(access.butler.schedule().run_now(job))
    return {"job": job, "run": run and _visible(run, access)}


async def plan_of(access: ButlerAccess) -> dict[str, Any]:
    """Load the jobs of one butler without their history."""
    plan = await access.butler.schedule().plan()
    return {
        "jobs": [replace(job, last=job.last and _visible(job.last, access)) for job in plan],
        "may_run": access.may_run_jobs,
        "clock_doubt": await access.butler.clock_watch.look(),
    }


def _visible(run: Run, access: ButlerAccess) -> Run:
    """Hide the error and the result from everybody but the operator."""
    return run if access.caller.is_operator else replace(run, error=None, result=None)
