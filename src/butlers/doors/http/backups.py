"""The backups of a home, for whoever runs it: which there are, and making one now."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request

from butlers.backup.directory import Backups
from butlers.doors.http.jobs import JobRuns
from butlers.doors.http.seats import Visiting, household_of
from butlers.memory.operations.answers import Instant
from butlers.operation import Answer

router = APIRouter(tags=["backups"])


class KeptBackup(Answer):
    """A backup that is kept."""

    file: str
    made_at: Instant
    bytes: int


class KeptBackups(Answer):
    """The backups that are kept, the newest first."""

    directory: str
    cron: str
    """When one is made; "" for never."""
    is_late: bool
    """Whether one should have been made since."""
    backups: list[KeptBackup]


class BackupAsked(Answer):
    """A backup that was begun; `file` is null while it is being made."""

    file: str | None


def backups_of(request: Request, visitor: Visiting) -> Backups:
    """The backups of the home; 403 for anybody but whoever runs it."""
    if not visitor.is_operator:
        raise HTTPException(403, "backups are of the whole home; its operator may make them")
    household = household_of(request)
    return Backups(household.home, household.backup)


OfHome = Annotated[Backups, Depends(backups_of)]


@router.get("/backups", response_model=KeptBackups)
async def list_backups(kept: OfHome) -> Any:
    """Which backups there are, and when the next is due."""
    return await asyncio.to_thread(told, kept)


@router.post("/backups", response_model=BackupAsked)
async def make_backup(request: Request, kept: OfHome) -> Any:
    """Back up the whole home now, while it is used."""
    runs: JobRuns = request.app.state.job_runs
    made = await runs.begin(kept.make())
    return {"file": made and str(made.file)}


def told(kept: Backups) -> dict[str, Any]:
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
