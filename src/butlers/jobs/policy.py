"""Decide when jobs run, from cron expressions and past runs. Times are UTC."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum, auto
from functools import partial
from typing import Any, TypeAlias

from cronsim import CronSim

from butlers.errors import SettingsError
from butlers.module import Job, Module, NotRun
from butlers.settings.sections import MODULE_JOBS, ButlerSettings

MAX_ATTEMPTS = 3
"""How often one run is started before it is given up, if each time its process dies."""

_SECOND = timedelta(seconds=1)
_SHORTEST_PAUSE = 0.01


class Cause(StrEnum):
    """Why a job runs."""

    SCHEDULE = "schedule"
    REQUEST = "request"


class RunOutcome(StrEnum):
    """How a run ended."""

    RUNNING = "running"
    OK = "ok"
    PARTIAL = "partial"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that a process started and has not ended; each attempt has its own lease."""

    id: int
    job: str
    fire_at: datetime
    cause: Cause
    attempt: int
    worker: str
    lease_until: datetime


class Step(Enum):
    """What to do about a job at one moment."""

    WAIT = auto()
    START = auto()
    SKIP = auto()
    TAKE_OVER = auto()
    GIVE_UP = auto()


def newest_tick(cron: str, now: datetime) -> datetime | None:
    """Return the latest tick up to now, now included."""
    after = now.astimezone(UTC).replace(microsecond=0) + _SECOND
    return next(CronSim(cron, after, reverse=True), None)


def next_tick(cron: str, now: datetime) -> datetime | None:
    """Return the first tick after now; None for "" and for a date that never comes."""
    return next(CronSim(cron, now.astimezone(UTC)), None) if cron else None


def due_tick(
    cron: str, since: datetime, last_fire_at: datetime | None, now: datetime
) -> datetime | None:
    """Return the latest tick, if it is after the schedule and the last run; skip older ones."""
    tick = newest_tick(cron, now) if cron else None
    done = since if last_fire_at is None else max(since, last_fire_at)
    return tick if tick is not None and tick > done else None


def decide(due: datetime | None, held: Claim | None, now: datetime) -> Step:
    """Return what to do about a job; after GIVE_UP decide again, with no run held."""
    if held is None:
        return Step.WAIT if due is None else Step.START
    if held.lease_until > now:
        return Step.WAIT if due is None else Step.SKIP
    wanted = held.cause is Cause.SCHEDULE and due is None
    return Step.TAKE_OVER if wanted and held.attempt < MAX_ATTEMPTS else Step.GIVE_UP


def seconds_to_wait(crons: Iterable[str], now: datetime, longest: float) -> float:
    """Return the time until the next tick; at most `longest`, for a clock may be set meanwhile."""
    ticks = (next_tick(cron, now) for cron in crons)
    waits = [(tick - now).total_seconds() for tick in ticks if tick is not None]
    return max(_SHORTEST_PAUSE, min([longest, *waits]))


RunPrompt: TypeAlias = Callable[[str, str], Awaitable[dict[str, Any]]]
"""Runs a prompt as a session: task and prompt to a result for the history."""

NO_SESSIONS = 'no session was run: runtime.kind in butler.toml is "none"'


def jobs_of(
    settings: ButlerSettings, modules: Sequence[Module], run_prompt: RunPrompt | None = None
) -> list[Job]:
    """List every job; one whose cron is empty runs only on request. Refuses names used twice."""
    jobs = [*_module_jobs(settings, modules), *_prompt_jobs(settings, run_prompt)]
    names = [job.name for job in jobs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError([f"schedule: two jobs are named {name}" for name in twice])
    return jobs


def _module_jobs(settings: ButlerSettings, modules: Sequence[Module]) -> Iterator[Job]:
    for module in modules:
        settable = getattr(settings.module(module.name), "butler_jobs", ())
        for job in module.jobs():
            entry = settings.butler.schedule.get(job.name) if job.name in settable else None
            yield job if entry is None else replace(job, cron=entry.cron)


def _prompt_jobs(settings: ButlerSettings, run_prompt: RunPrompt | None) -> Iterator[Job]:
    for name, entry in settings.butler.schedule.items():
        if entry.cron and name not in MODULE_JOBS:
            run = partial(run_prompt or _no_sessions, name, entry.prompt)
            yield Job(name, entry.cron, run)


async def _no_sessions(task: str, prompt: str) -> dict[str, Any]:
    raise NotRun(NO_SESSIONS)
