"""The statements about jobs: their schedules, and their runs with what became of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from butlers.db.postgres import Database, Row, Transaction
from butlers.db.queries import load
from butlers.errors import ButlersError
from butlers.jobs.policy import Cause, Held, Outcome
from butlers.kernel.text import one_line

_SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Claim:
    """A run in the hands of one worker; the attempt tells its holder from the next one."""

    id: int
    job: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Hold:
    """Who runs a job from when, and until when it counts as held."""

    worker: str
    now: datetime
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a run."""

    outcome: Outcome
    error: str | None = None
    result: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run as the history tells it."""

    id: int
    job: str
    fire_at: datetime
    cause: Cause
    outcome: Outcome
    attempt: int
    worker: str
    lease_until: datetime
    started_at: datetime
    finished_at: datetime | None
    error: str | None
    result: dict[str, Any] | None

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it goes on."""
        if self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


GONE = Ending(Outcome.FAILED, "the process that ran it ended before it was done")
STOPPED = Ending(Outcome.FAILED, "stopped before it was done")

_MAX_ERROR = 500
_MAX_RESULT = 20_000


def ending_of(result: dict[str, Any]) -> Ending:
    """How a job ended that returned; a result that lists errors is that of a failure."""
    kept = result if _fits(result) else {"left_out": "the result was too long to keep"}
    errors = result.get("errors")
    if not errors:
        return Ending(Outcome.OK, result=kept)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Ending(Outcome.FAILED, _line(str(errors[0]))[: _MAX_ERROR - len(more)] + more, kept)


def skipped(reason: Exception) -> Ending:
    """How a job ended that decided not to run."""
    return Ending(Outcome.SKIPPED, _line(str(reason)))


def failed(error: Exception) -> Ending:
    """How a job ended that raised; a stranger's message may quote what the job was reading."""
    if isinstance(error, ButlersError):
        return Ending(Outcome.FAILED, _line(str(error)) or type(error).__name__)
    return Ending(Outcome.FAILED, f"unexpected {type(error).__name__}; the log says more")


def _fits(result: dict[str, Any]) -> bool:
    return len(json.dumps(result, allow_nan=False)) <= _MAX_RESULT


def _line(text: str) -> str:
    return one_line(text)[:_MAX_ERROR]


async def take_turn(tx: Transaction, job: str) -> None:
    """Wait until no other process is deciding about this job."""
    await tx.execute(_SQL["take_turn"], key=f"butlers.job.{job}")


async def see_schedule(tx: Transaction, job: str, cron: str, now: datetime) -> datetime:
    """From when on the ticks of a job count: now, if its schedule is new or has changed."""
    await tx.execute(_SQL["see_schedule"], job=job, cron=cron, now=now)
    since: datetime = await tx.fetch_value(_SQL["since"], job=job)
    return since


async def last_fire_at(tx: Transaction, job: str, now: datetime) -> datetime | None:
    """The newest time the job was due and dealt with."""
    newest: datetime | None = await tx.fetch_value(_SQL["last_fire_at"], job=job, now=now)
    return newest


async def held(tx: Transaction, job: str) -> Held | None:
    """The run that some process began and has not ended."""
    row = await tx.fetch_one(_SQL["held"], job=job)
    return None if row is None else Held(**{**row, "cause": Cause(row["cause"])})


async def start(tx: Transaction, job: str, fire_at: datetime, cause: Cause, hold: Hold) -> Claim:
    """Begin a run."""
    number: int = await tx.fetch_value(
        _SQL["start"],
        job=job,
        fire_at=fire_at,
        cause=cause,
        worker=hold.worker,
        lease_until=hold.lease_until,
        now=hold.now,
    )
    return Claim(number, job)


async def skip(tx: Transaction, job: str, fire_at: datetime, reason: str, hold: Hold) -> None:
    """Put on record that a tick is not run."""
    await tx.execute(
        _SQL["skip"], job=job, fire_at=fire_at, reason=reason, worker=hold.worker, now=hold.now
    )


async def take_over(tx: Transaction, job: str, run: Held, hold: Hold) -> Claim:
    """Begin a run anew whose process is gone."""
    await tx.execute(
        _SQL["take_over"],
        id=run.id,
        attempt=run.attempt,
        worker=hold.worker,
        lease_until=hold.lease_until,
        now=hold.now,
    )
    return Claim(run.id, job, run.attempt + 1)


async def renew(tx: Transaction, claim: Claim, lease_until: datetime) -> bool:
    """Hold a run for longer; whether it was still ours."""
    touched = await tx.execute(
        _SQL["renew"], id=claim.id, attempt=claim.attempt, lease_until=lease_until
    )
    return touched == 1


async def settle(tx: Transaction, claim: Claim, ending: Ending, now: datetime) -> bool:
    """Put on record how a run ended; whether it was still ours."""
    touched = await tx.execute(
        _SQL["settle"],
        id=claim.id,
        attempt=claim.attempt,
        outcome=ending.outcome,
        error=ending.error,
        result=ending.result,
        now=now,
    )
    return touched == 1


async def prune(tx: Transaction, job: str, kept: int) -> int:
    """Forget all but the newest runs of a job; how many."""
    return await tx.execute(_SQL["prune"], job=job, kept=kept)


async def find_latest(database: Database, names: Sequence[str]) -> dict[str, Run]:
    """The newest run of each of these jobs."""
    rows = await database.fetch(_SQL["latest"], jobs=list(names))
    return {row["job"]: _run(row) for row in rows}


async def find_history(database: Database, names: Sequence[str], limit: int) -> list[Run]:
    """Runs of these jobs, the newest first."""
    rows = await database.fetch(_SQL["history"], jobs=list(names), limit=limit)
    return [_run(row) for row in rows]


def _run(row: Row) -> Run:
    words = {"cause": Cause(row["cause"]), "outcome": Outcome(row["outcome"])}
    return Run(**{**row, **words})
