"""The backups of a home, for whoever runs it: which there are, making one, checking one."""

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
    """A backup that is kept."""

    file: str
    made_at: Instant
    bytes: int


class BackupChecked(Output):
    """How a backup was found."""

    file: str
    deep: bool
    """Whether it was restored for a moment, and every row counted."""
    whole: bool | None
    """null while it is being checked."""
    why: str
    """What is wrong with it."""
    rows: dict[str, int]
    """How many rows it has of each butler."""
    checked_at: Instant | None


class KeptBackups(Output):
    """The backups that are kept, the newest first."""

    directory: str
    cron: str
    """When one is made; "" for never."""
    is_late: bool
    """Whether one should have been made since."""
    backups: list[KeptBackup]
    checked: BackupChecked | None
    """The one that was checked last, since the home is up."""


class BackupAsked(Output):
    """A backup that was begun; `file` is null while it is being made."""

    file: str | None


class AskedCheck(Input):
    """Which backup, and how closely."""

    file: Annotated[str, Field(max_length=200)] = ""
    """The name of one that is kept. Left out: the newest."""
    deep: bool = False
    """Restore it for a moment, and count every row."""


class BackupChecks:
    """Checks of backups, one at a time, and what came of the last."""

    def __init__(self) -> None:
        self.last: dict[str, Any] | None = None

    async def check(self, file: Path, *, deep: bool) -> dict[str, Any]:
        """How a backup was found; Conflict while another is being checked."""
        if self.last is not None and self.last["whole"] is None:
            raise Conflict(f"{self.last['file']} is being checked; try again in a while")
        begun = {"file": str(file), "deep": deep, "whole": None, "why": "", "rows": {}}
        self.last = begun | {"checked_at": None}
        found: dict[str, Any] = {"whole": False, "why": "the check was broken off"}
        try:
            found = await _read_backup(file, deep)
        finally:
            self.last = begun | found | {"checked_at": utc_now()}
        return self.last


async def _read_backup(file: Path, deep: bool) -> dict[str, Any]:
    try:
        manifest = await verify(file, deep=deep, tell=lambda words: None)
    except (ButlersError, OSError) as error:
        return {"whole": False, "why": str(error)}
    rows = {butler: stored.rows for butler, stored in manifest.databases.items()}
    return {"whole": True, "rows": rows}


def backups_of(request: Request, visitor: Visiting) -> Backups:
    """The backups of the home; 403 for anybody but whoever runs it."""
    if not visitor.is_operator:
        raise HTTPException(403, "backups are of the whole home; its operator may make them")
    app_state = app_state_of(request)
    return Backups(app_state.home, app_state.backup)


OfHome = Annotated[Backups, Depends(backups_of)]


@router.get("/backups", response_model=KeptBackups)
async def list_backups(request: Request, kept: OfHome) -> Any:
    """Which backups there are, when one is due, and how the last that was checked was found."""
    return {**await asyncio.to_thread(backups_view, kept), "checked": checks_of(request).last}


@router.post("/backups", response_model=BackupAsked)
async def make_backup(request: Request, kept: OfHome) -> Any:
    """Back up the whole home now, while it is used."""
    runs: JobRuns = request.app.state.job_runs
    made = await runs.begin(kept.make())
    return {"file": made and str(made.file)}


@router.post("/backups/verify", response_model=BackupChecked)
async def check_backup(request: Request, kept: OfHome, asked: AskedCheck) -> Any:
    """Check that a backup that is kept is whole and can be restored.

    Where that takes longer than a moment `whole` is null; the list tells later what came of it.
    """
    chosen = await asyncio.to_thread(kept.find, asked.file)
    runs: JobRuns = request.app.state.job_runs
    checks = checks_of(request)
    return await runs.begin(checks.check(chosen.file, deep=asked.deep)) or checks.last


def checks_of(request: Request) -> BackupChecks:
    """The checks of this process."""
    checks: BackupChecks = request.app.state.backup_checks
    return checks


def backups_view(kept: Backups) -> dict[str, Any]:
    """What there is to tell of the backups."""
    return {
        "directory": str(kept.directory),
        "cron": kept.cron,
        "is_late": kept.is_late,
        "backups": [
            {"file": str(one.file), "made_at": one.made_at, "bytes": one.bytes}
            for one in kept.all()
        ],
    }
