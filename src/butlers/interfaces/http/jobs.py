"""The jobs of a butler: when they run, how they ran, and running one now."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path
from starlette.requests import Request

from butlers.interfaces.http.access import ButlerAccess, CurrentAccess
from butlers.jobs.runs import Run
from butlers.jobs.schedule import Planned
from butlers.memory.operations.results import Instant
from butlers.operation import Output

WAIT_SECONDS = 5.0
T = TypeVar("T")


class JobRuns:
    """What callers of this process have begun and may not wait for: runs, and ends of sessions."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Runs begun within this block end with it."""
        try:
            yield
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def begin(
        self, run: Coroutine[Any, Any, T], wait_seconds: float = WAIT_SECONDS
    ) -> T | None:
        """What came of it once it has ended; None while it goes on. What kept it raises."""
        task = self.started(run)
        done, _ = await asyncio.wait({task}, timeout=wait_seconds)
        return task.result() if done else None

    def started(self, run: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """The run, under way; it ends with this process at the latest, which waits for that."""
        task = asyncio.create_task(run)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


router = APIRouter(tags=["jobs"])
_SHOWN = 20


class JobRun(Output):
    """One run. Jobs do their work for every tenant, so only the operator is told what came of it;
    `error` and `result` are null for anybody else."""

    job: str
    cause: str
    outcome: str
    started_at: Instant
    finished_at: Instant | None
    error: str | None
    result: dict[str, Any] | None


class JobPlan(Output):
    """A job, when it runs next and how it ran last."""

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
    """Why what cannot be undone waits, while the clock is not believed."""


class Jobs(JobPlans):
    """The jobs of a butler and their newest runs."""

    history: list[JobRun]


class JobAsked(Output):
    """A job that was run; `run` is null while it goes on."""

    job: str
    run: JobRun | None


@router.get("/jobs", response_model=Jobs)
async def list_jobs(access: CurrentAccess) -> Any:
    """Every job with its next run, and the newest runs of all."""
    history = await access.butler.schedule().history(limit=_SHOWN)
    return {**await plan_of(access), "history": [_run_view(run, access) for run in history]}


class ClockAccepted(Output):
    """The instant that is believed now."""

    believed_at: Instant


@router.post("/jobs/clock", response_model=ClockAccepted)
async def accept_clock(access: CurrentAccess) -> Any:
    """Say that the clock is right: cleanup and decay sweep go on."""
    _must_run(access)
    return {"believed_at": await access.butler.clock_watch.accept()}


@router.post("/jobs/{job}/run", response_model=JobAsked)
async def run_job(
    access: CurrentAccess, request: Request, job: Annotated[str, Path(max_length=100)]
) -> Any:
    """Run a job now, for the whole butler; 409 while it is under way."""
    _must_run(access)
    runs: JobRuns = request.app.state.job_runs
    run = await runs.begin(access.butler.schedule().run_now(job))
    return {"job": job, "run": run and _run_view(run, access)}


def _must_run(access: ButlerAccess) -> None:
    access.must_run_jobs("jobs concern the whole butler; its own tenant may run them")


async def plan_of(access: ButlerAccess) -> dict[str, Any]:
    """The jobs of one butler without their history."""
    planned = await access.butler.schedule().plan()
    return {
        "jobs": [_planned(one, access) for one in planned],
        "may_run": access.may_run_jobs,
        "clock_doubt": await access.butler.clock_watch.look(),
    }


def _planned(one: Planned, access: ButlerAccess) -> dict[str, Any]:
    last = _run_view(one.last, access) if one.last else None
    return {"name": one.name, "cron": one.cron, "next_at": one.next_at, "last": last}


def _run_view(run: Run, access: ButlerAccess) -> dict[str, Any]:
    return {
        "job": run.job,
        "cause": run.cause,
        "outcome": run.outcome,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "error": run.error if access.is_operator else None,
        "result": run.result if access.is_operator else None,
    }
