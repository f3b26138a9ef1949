"""The directory of a home's backups: list them, make the next one, delete old ones."""

import asyncio
import fcntl
import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from butlers.backup.archive import BACKUPS, Archive
from butlers.backup.create import Made, Tell, locked, make
from butlers.backup.encryption import ENDING, read_passphrase
from butlers.clock import Clock, utc_now
from butlers.db.lease import beside
from butlers.db.postgres import Database
from butlers.errors import ButlersError, Conflict, NotFound
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.jobs import runs
from butlers.jobs.policy import Cause, RunOutcome, newest_tick
from butlers.jobs.runs import Ending, Hold
from butlers.settings.sections import BackupSection

log = structlog.get_logger(__name__)
_LOOK_SECONDS, _AGAIN_SECONDS = 30.0, 600.0
_LOCK = ".making"
_NAME = "butlers-%Y%m%d-%H%M%S.zip"


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A backup in the directory."""

    file: Path
    made_at: datetime
    bytes: int


class Backups:
    """The backups of a home, in the directory that the settings name."""

    def __init__(self, home: Home, settings: BackupSection, clock: Clock = utc_now) -> None:
        self._home, self._settings, self._clock = home, settings, clock

    @property
    def directory(self) -> Path:
        """Their directory: in the home, unless the settings name another."""
        return (self._home.root / (self._settings.directory or BACKUPS)).expanduser()

    def all(self) -> list[BackupFile]:
        """List the backups by file name, newest first; none is opened."""
        backups = [
            BackupFile(file, made_at, file.stat().st_size)
            for file in self.directory.glob("butlers-*.zip*")
            if (made_at := _made_at(file)) is not None
        ]
        return sorted(backups, key=lambda backup: backup.made_at, reverse=True)

    def find(self, name: str = "") -> BackupFile:
        """Return the backup of this file name, or the newest; NotFound if there is none."""
        for backup in self.all():
            if name in ("", backup.file.name):
                return backup
        what = f"called {name[:80]!r} " if name else ""
        raise NotFound(f"there is no backup {what}in {self.directory}; name another, or make one")

    @property
    def cron(self) -> str:
        """The schedule; "" for none."""
        return self._settings.cron

    @property
    def passphrase(self) -> str:
        """The passphrase that the settings name; "" for none."""
        file = self._settings.passphrase_file
        return read_passphrase(self._home.root / Path(file).expanduser()) if file else ""

    def next_name(self, passphrase: str) -> str:
        """Return the file name of a backup made now."""
        return f"{self._clock():{_NAME}}{ENDING if passphrase else ''}"

    async def make(
        self,
        tell: Tell = lambda words: None,
        elsewhere: Mapping[str, str] | None = None,
        passphrase: str = "",
    ) -> Made:
        """Make a backup and delete the oldest beyond the limit; Conflict while another is made.

        Without a passphrase, the settings say whether it is encrypted.
        """
        passphrase = passphrase or self.passphrase
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.directory / _LOCK).touch(0o600)
        try:
            with locked(self.directory / _LOCK, fcntl.LOCK_NB):
                file = self.directory / self.next_name(passphrase)
                made = await make(
                    self._home, file, tell, elsewhere=elsewhere or {}, passphrase=passphrase
                )
                await asyncio.to_thread(self._prune)
        except BlockingIOError:
            raise Conflict(f"a backup is being made in {self.directory} already") from None
        return made

    @property
    def is_late(self) -> bool:
        """Whether a scheduled backup was not made."""
        return self._missed() is not None

    def _missed(self) -> datetime | None:
        """Return the scheduled time of a backup that was not made, or None."""
        tick = newest_tick(self._settings.cron, self._clock()) if self._settings.cron else None
        newest = next(iter(self.all()), None)
        return tick if tick is not None and (newest is None or newest.made_at < tick) else None

    def kept(self, butlers: Mapping[str, Butler]) -> AbstractAsyncContextManager[object]:
        """Make backups on schedule while the block runs; missed ones are made up for once."""
        return beside(self._keep(butlers))

    async def _keep(self, butlers: Mapping[str, Butler]) -> None:
        while self._settings.cron:
            pause = _LOOK_SECONDS
            try:
                others = None
                if tick := await asyncio.to_thread(self._missed):
                    others = await kept_elsewhere(self._home, butlers, tick, self._clock())
                if others is not None:
                    made = await self.make(elsewhere=others)
                    log.info("backup made", file=str(made.file), bytes=made.bytes)
            except Exception as error:  # noqa: BLE001  the next one may be made all the same
                log.error("no backup could be made", error=str(error) or type(error).__name__)
                pause = _AGAIN_SECONDS
            await asyncio.sleep(pause)

    def _prune(self) -> None:
        """Delete all but the newest backups of this home; those of other homes stay.

        So do those with a passphrase that is not in the settings.
        """
        for old in [one for one in self.all() if self._is_ours(one.file)][self._settings.keep :]:
            old.file.unlink(missing_ok=True)

    def _is_ours(self, file: Path) -> bool:
        with suppress(ButlersError, OSError), Archive(file, self.passphrase) as archive:
            origin = (archive.manifest.home, archive.manifest.host)
            return origin == (str(self._home.root), socket.gethostname())
        return False


def _made_at(file: Path) -> datetime | None:
    try:
        return datetime.strptime(file.name.removesuffix(ENDING), _NAME).replace(tzinfo=UTC)
    except ValueError:
        return None


_JOB = ".backup"
_KEPT_RUNS = 20
GRACE = timedelta(minutes=15)
"""How long the home that made the last backup has for the next, before another makes it."""


async def kept_elsewhere(
    home: Home, butlers: Mapping[str, Butler], tick: datetime, now: datetime
) -> dict[str, str] | None:
    """Return the butlers that another home backs up this time, and which; None to wait for it."""
    here, others = f"{socket.gethostname()}:{home.root}", {}
    for name, butler in butlers.items():
        if butler.settings.database.url and butler.is_open:
            keeper = await _keeper(butler.database, here, tick, now)
            if keeper is None:
                return None
            if keeper != here:
                others[name] = keeper
    return others


async def _keeper(database: Database, here: str, tick: datetime, now: datetime) -> str | None:
    """Return the home that backs up a database this time: this one, if no other does or should."""
    async with database.system_transaction() as tx:
        await runs.take_turn(tx, job=_JOB)
        last = (await runs.find_latest(database, [_JOB])).get(_JOB)
        if last is not None and last.fire_at >= tick:
            return last.worker
        if last is not None and last.worker != here and now - tick < GRACE:
            return None
        claim = await runs.start(tx, _JOB, tick, Cause.SCHEDULE, Hold(here, now, now))
        await runs.settle(tx, claim, Ending(RunOutcome.OK), now)
        await runs.prune(tx, job=_JOB, kept=_KEPT_RUNS)
    return here
