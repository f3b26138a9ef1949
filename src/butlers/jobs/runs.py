"""Store the schedules of jobs and their runs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from butlers.db.postgres import Database, Row, Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, OnlyValue, Touched
from butlers.errors import ButlersError
from butlers.jobs.policy import Cause, Claim, RunOutcome
from butlers.kernel.text import one_line

_SQL = load(__file__)

take_turn = Touched(_SQL["take_turn"])
see_schedule = Touched(_SQL["see_schedule"])
get_since = OnlyValue[datetime](_SQL["since"])
last_fire_at = FirstValue[datetime](_SQL["last_fire_at"])
skip = Touched(_SQL["skip"])
renew = Touched(_SQL["renew"])
prune = Touched(_SQL["prune"])

_held = FirstRow(_SQL["held"])
_start = OnlyValue[int](_SQL["start"])
_take_over = Touched(_SQL["take_over"])
_settle = Touched(_SQL["settle"])


@dataclass(frozen=True, slots=True)
class Hold:
    """The lease of a run: its process, its start and its end."""

    worker: str
    now: datetime
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    outcome: RunOutcome
    error: str | None = None
    result: dict[str, Any] | None = None


_REMARKS = {
    RunOutcome.PARTIAL: "went well in part",
    RunOutcome.FAILED: "failed",
    RunOutcome.SKIPPED: "was skipped",
}


@dataclass(frozen=True, slots=True)
class Run(Claim):
    """One run in the history."""

    outcome: RunOutcome
    started_at: datetime
    finished_at: datetime | None
    error: str | None
    result: dict[str, Any] | None

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs."""
        if self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def remark(self) -> str:
        """How it ended in a few words; empty if all is well."""
        warns = bool((self.result or {}).get("warnings"))
        return _REMARKS.get(self.outcome, "has a warning" if warns else "")


GONE = Ending(RunOutcome.FAILED, "the process that ran it ended before it was done")
STOPPED = Ending(RunOutcome.FAILED, "stopped before it was done")

_MAX_ERROR = 500
_MAX_RESULT = 20_000


def ending_of(result: dict[str, Any]) -> Ending:
    """Return the ending of a result: with errors failed, or partial if it changed something."""
    fits = len(json.dumps(result, allow_nan=False)) <= _MAX_RESULT
    stored = result if fits else {"left_out": "the result was too long to keep"}
    errors = result.get("errors")
    if not errors:
        return Ending(RunOutcome.OK, result=stored)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    outcome = RunOutcome.PARTIAL if result.get("changed") else RunOutcome.FAILED
    return Ending(outcome, _line(str(errors[0]))[: _MAX_ERROR - len(more)] + more, stored)


def skipped(reason: Exception) -> Ending:
    """Return the ending of a job that decided not to run."""
    return Ending(RunOutcome.SKIPPED, _line(str(reason)))


def failed(error: Exception) -> Ending:
    """Return the ending of a job that raised; messages not ours may quote memories."""
    if isinstance(error, ButlersError):
        return Ending(RunOutcome.FAILED, _line(str(error)) or type(error).__name__)
    return Ending(RunOutcome.FAILED, f"unexpected {type(error).__name__}; the log says more")


def _line(text: str) -> str:
    return one_line(text)[:_MAX_ERROR]


async def get_running(tx: Transaction, job: str) -> Claim | None:
    """Return the run that a process started and has not ended, or None."""
    row = await _held(tx, job=job)
    return None if row is None else Claim(**{**row, "cause": Cause(row["cause"])})


async def start(tx: Transaction, job: str, fire_at: datetime, cause: Cause, hold: Hold) -> Claim:
    """Start a run."""
    number = await _start(tx, job=job, fire_at=fire_at, cause=cause, **asdict(hold))
    return Claim(number, job, fire_at, cause, 1, hold.worker, hold.lease_until)


async def take_over(tx: Transaction, gone: Claim, hold: Hold) -> Claim:
    """Start a run again whose process is gone."""
    await _take_over(tx, id=gone.id, attempt=gone.attempt, **asdict(hold))
    return replace(gone, attempt=gone.attempt + 1, worker=hold.worker, lease_until=hold.lease_until)


async def settle(tx: Transaction, claim: Claim, ending: Ending, now: datetime) -> None:
    """Record how a run ended, if it is still ours."""
    await _settle(tx, id=claim.id, attempt=claim.attempt, now=now, **asdict(ending))


async def find_latest(database: Database, names: Sequence[str]) -> dict[str, Run]:
    """Return the newest run of each of these jobs."""
    rows = await database.fetch(_SQL["latest"], jobs=list(names))
    return {row["job"]: _run(row) for row in rows}


async def find_history(database: Database, names: Sequence[str], limit: int) -> list[Run]:
    """List runs of these jobs, newest first."""
    rows = await database.fetch(_SQL["history"], jobs=list(names), limit=limit)
    return [_run(row) for row in rows]


def _run(row: Row) -> Run:
    words = {"cause": Cause(row["cause"]), "outcome": RunOutcome(row["outcome"])}
    return Run(**{**row, **words})
