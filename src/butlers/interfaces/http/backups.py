"""Routes for the backups of a home, for its operator: list, make and check them."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from butlers.backup.directory import Backups
from butlers.backup.restore_home import verify
from butlers.clock import utc_now
from butlers.errors import ButlersError, Conflict
from butlers.interfaces.http.access import Visiting, app_state_of
from butlers.interfaces.http.jobs import JobRuns
from butlers.memory.operations.results import Instant
from butlers.operation import Input, Output

router = APIRouter(tags=["backups"])


class KeptBackup(Output):
    """A backup in the directory."""

    file: str
    made_at: Instant
    bytes: int


class BackupChecked(Output):
    """The result of checking a backup."""

    file: str
    deep: bool
    """Whether it was restored temporarily, and every row counted."""
    whole: bool | None
    """Whether it is complete; null while it is being checked."""
    why: str
    """What is wrong with it."""
    rows: dict[str, int]
    """How many rows it has of each butler."""
    checked_at: Instant | None


class KeptBackups(Output):
    """The backups, newest first."""

    directory: str
    cron: str
    """When one is made; "" for never."""
    is_late: bool
    """Whether a scheduled backup is missing."""
    backups: list[KeptBackup]
    checked: BackupChecked | None
    """The last check since the daemon started."""


class BackupAsked(Output):
    """A backup that was started; `file` is null while it is being made."""

    file: str | None


class AskedCheck(Input):
    """Which backup to check, and how thoroughly."""

    file: Annotated[str, Field(max_length=200)] = ""
    """The file name of a backup. Left out: the newest."""
    deep: bool = False
    """Restore it temporarily, and count every row."""


class BackupChecks:
    """Checks of backups, one at a time, and the result of the last."""

    def __init__(self) -> None:
        self.last: dict[str, Any] | None = None

    async def check(self, file: Path, passphrase: str, *, deep: bool) -> dict[str, Any]:
        """Check a backup; Conflict while another is being checked."""
        if self.last is not None and self.last["whole"] is None:
            raise Conflict(f"{self.last['file']} is being checked; try again in a while")
        check = {"file": str(file), "deep": deep, "whole": None, "why": "", "rows": {}}
        self.last = check | {"checked_at": None}
        result: dict[str, Any] = {"whole": False, "why": "the check was interrupted"}
        try:
            manifest = await verify(file, deep=deep, tell=lambda words: None, passphrase=passphrase)
            rows = {butler: stored.rows for butler, stored in manifest.databases.items()}
            result = {"whole": True, "rows": rows}
        except (ButlersError, OSError) as error:
            result["why"] = str(error)
        finally:
            self.last = check | result | {"checked_at": utc_now()}
        return self.last


def backups_of(request: Request, visitor: Visiting) -> Backups:
    """Return the backups of the home; 403 for anybody but its operator."""
    if not visitor.who.is_operator:
        raise HTTPException(403, "a backup holds the whole home; only its operator may use it")
    app_state = app_state_of(request)
    return Backups(app_state.home, app_state.backup)


OfHome = Annotated[Backups, Depends(backups_of)]


@router.get("/backups", response_model=KeptBackups)
async def list_backups(request: Request, backups: OfHome) -> Any:
    """List the backups, newest first, with the schedule and the last check."""
    checks: BackupChecks = request.app.state.backup_checks
    return {**await asyncio.to_thread(_listing, backups), "checked": checks.last}


def _listing(backups: Backups) -> dict[str, Any]:
    files = backups.all()
    return {
        "directory": str(backups.directory),
        "cron": backups.cron,
        "is_late": backups.is_late,
        "backups": [{"file": str(b.file), "made_at": b.made_at, "bytes": b.bytes} for b in files],
    }


@router.post("/backups", response_model=BackupAsked)
async def make_backup(request: Request, backups: OfHome) -> Any:
    """Back up the whole home now, while it is in use."""
    runs: JobRuns = request.app.state.job_runs
    backup = await runs.begin(backups.make())
    return {"file": backup and str(backup.file)}


@router.post("/backups/verify", response_model=BackupChecked)
async def check_backup(request: Request, backups: OfHome, asked: AskedCheck) -> Any:
    """Check that a backup is complete and can be restored.

    If that takes more than a few seconds, `whole` is null; list the backups later for the result.
    """
    backup = await asyncio.to_thread(backups.find, asked.file)
    runs: JobRuns = request.app.state.job_runs
    checks: BackupChecks = request.app.state.backup_checks
    check = checks.check(backup.file, backups.passphrase, deep=asked.deep)
    return await runs.begin(check) or checks.last
