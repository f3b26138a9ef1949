"""The backups that are kept of a home: where they lie, which there are, and the next one."""

import asyncio
import fcntl
import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from butlers.backup.archive import BACKUPS, Archive
from butlers.backup.create import Made, Tell, locked, make
from butlers.clock import Clock, utc_now
from butlers.db.lease import beside
from butlers.db.postgres import Database
from butlers.errors import ButlersError, Conflict, NotFound
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.jobs import runs
from butlers.jobs.policy import Cause, RunOutcome, newest_tick
from butlers.jobs.runs import Ending, Hold, Run
from butlers.settings.sections import BackupSection

log = structlog.get_logger(__name__)
_LOOK_SECONDS, _AGAIN_SECONDS = 30.0, 600.0
_LOCK = ".making"
_NAME = "butlers-%Y%m%d-%H%M%S.zip"


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A backup that lies in the directory."""

    file: Path
    made_at: datetime
    bytes: int


class Backups:
    """The backups of a home, in the one directory the settings name."""

    def __init__(self, home: Home, settings: BackupSection, clock: Clock = utc_now) -> None:
        self._home, self._settings, self._clock = home, settings, clock

    @property
    def directory(self) -> Path:
        """Where they are kept: in the home, unless the settings name another place."""
        return (self._home.root / (self._settings.directory or BACKUPS)).expanduser()

    def all(self) -> list[BackupFile]:
        """Those that bear our name, the newest first; what is in them is not looked at."""
        found = [
            BackupFile(file, made_at, file.stat().st_size)
            for file in self.directory.glob("butlers-*.zip")
            if (made_at := _made_at(file)) is not None
        ]
        return sorted(found, key=lambda one: one.made_at, reverse=True)

    def find(self, name: str = "") -> BackupFile:
        """The one of this name, or the newest; a name is that of a file here and no path."""
        for one in self.all():
            if name in ("", one.file.name):
                return one
        what = f"called {name[:80]!r} " if name else ""
        raise NotFound(f"there is no backup {what}in {self.directory}; name another, or make one")

    @property
    def cron(self) -> str:
        """When one is made by itself; "" for never."""
        return self._settings.cron

    @property
    def next_name(self) -> str:
        """What one that is made now is called."""
        return f"{self._clock():{_NAME}}"

    async def make(
        self, tell: Tell = lambda words: None, elsewhere: Mapping[str, str] | None = None
    ) -> Made:
        """One more, and those beyond the number to keep removed; Conflict while one is made."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.directory / _LOCK).touch(0o600)
        try:
            with locked(self.directory / _LOCK, fcntl.LOCK_NB):
                file = self.directory / self.next_name
                made = await make(self._home, file, tell, elsewhere=elsewhere or {})
                await asyncio.to_thread(self._prune)
        except BlockingIOError:
            raise Conflict(f"a backup is being made in {self.directory} already") from None
        return made

    @property
    def is_late(self) -> bool:
        """Whether the schedule asked for one since the last was made."""
        return self._missed() is not None

    def _missed(self) -> datetime | None:
        """The time for which the schedule asked for one that was not made."""
        tick = newest_tick(self._settings.cron, self._clock()) if self._settings.cron else None
        newest = next(iter(self.all()), None)
        return tick if tick is not None and (newest is None or newest.made_at < tick) else None

    def kept(self, butlers: Mapping[str, Butler]) -> AbstractAsyncContextManager[object]:
        """Within this block one is made whenever the schedule says; what was missed, once."""
        return beside(self._keep(butlers))

    async def _keep(self, butlers: Mapping[str, Butler]) -> None:
        while self._settings.cron:
            pause = _LOOK_SECONDS
            try:
                if (tick := await asyncio.to_thread(self._missed)) is not None:
                    await self._make_for(tick, butlers)
            except Exception as error:  # noqa: BLE001  the next one may be made all the same
                log.error("no backup could be made", error=str(error) or type(error).__name__)
                pause = _AGAIN_SECONDS
            await asyncio.sleep(pause)

    async def _make_for(self, tick: datetime, butlers: Mapping[str, Butler]) -> None:
        """One for this time, once it is known which home keeps what several serve."""
        elsewhere = await kept_elsewhere(self._home, butlers, tick, self._clock())
        if elsewhere is not None:
            made = await self.make(elsewhere=elsewhere)
            log.info("backup made", file=str(made.file), bytes=made.bytes)

    def _prune(self) -> None:
        """Remove what is older than the newest so many; another home's are not ours to remove."""
        for old in [one for one in self.all() if self._is_ours(one.file)][self._settings.keep :]:
            old.file.unlink(missing_ok=True)

    def _is_ours(self, file: Path) -> bool:
        try:
            with Archive(file) as archive:
                told = archive.manifest
        except (ButlersError, OSError):
            return False
        return (told.home, told.host) == (str(self._home.root), socket.gethostname())


def _made_at(file: Path) -> datetime | None:
    try:
        return datetime.strptime(file.name, _NAME).replace(tzinfo=UTC)
    except ValueError:
        return None


_JOB = ".backup"
_KEPT_RUNS = 20
GRACE = timedelta(minutes=15)
"""How long after its time a backup is left to the home that made the last one."""


async def kept_elsewhere(
    home: Home, butlers: Mapping[str, Butler], tick: datetime, now: datetime
) -> dict[str, str] | None:
    """The butlers whose databases another home keeps this time, and which; None while one waits."""
    here, found = f"{socket.gethostname()}:{home.root}", {}
    for name, butler in butlers.items():
        if butler.settings.database.url and butler.is_open:
            keeper = await _keeper(butler.database, here, tick, now)
            if keeper is None:
                return None
            if keeper != here:
                found[name] = keeper
    return found


async def _keeper(database: Database, here: str, tick: datetime, now: datetime) -> str | None:
    """Who keeps a database this time: we, if nobody else does or should."""
    async with database.system_transaction() as tx:
        await runs.take_turn(tx, job=_JOB)
        last = (await runs.find_latest(database, [_JOB])).get(_JOB)
        if last is not None and last.fire_at >= tick:
            return last.worker
        if not is_ours(last, here, tick, now):
            return None
        claim = await runs.start(tx, _JOB, tick, Cause.SCHEDULE, Hold(here, now, now))
        await runs.settle(tx, claim, Ending(RunOutcome.OK), now)
        await runs.prune(tx, job=_JOB, kept=_KEPT_RUNS)
    return here


def is_ours(last: Run | None, here: str, tick: datetime, now: datetime) -> bool:
    """Whether to keep what nobody has kept yet: if we did last, or whoever did is late."""
    return last is None or last.worker == here or now - tick >= GRACE
