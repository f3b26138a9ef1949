"""The embedded PostgreSQL server: started by the first process that needs it, stopped by the last.

Each process that uses the server holds a shared lock on the file `holders`, which the kernel drops
however the process ends. Starting and stopping need an exclusive lock on the file `turn`. Both are
beside the data directory, so that all processes that may use it see the same locks.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Self
from urllib.parse import quote

from butlers.db.embedded.account import UserAccount, account_for
from butlers.db.embedded.binaries import binaries_for
from butlers.db.embedded.configuration import AUTO
from butlers.db.embedded.data_directory import DataDirectory
from butlers.db.embedded.directories import (
    check_identity,
    claim_identity,
    reachable_place,
    recorded_place,
)
from butlers.errors import Unavailable

_PAUSE_SECONDS = 0.05
_REMEDIES = {
    errno.ENOSPC: "the disk is full; free some space and start again",
    errno.EDQUOT: "your disk quota is used up; free some space and start again",
    errno.EROFS: "the file system is read-only; choose a data directory that can be written to",
    errno.EACCES: "you may not write there; change permissions or choose another data directory",
    errno.EPERM: "the system does not allow it; run as a user who owns the data directory",
    errno.ENOTDIR: "part of the path is a file; choose another data directory",
    errno.EEXIST: "a file is in the way; choose another data directory",
}


class EmbeddedPostgres:
    """One PostgreSQL server for one directory, shared by every process that started it."""

    def __init__(self, directory: Path, *, start_timeout: float = 120.0) -> None:
        self._given_directory = Path(os.path.abspath(directory))
        self._directory = directory.resolve()
        self._start_timeout = start_timeout
        self.memory = self.memory_now = AUTO
        self._holder: int | None = None
        self._data: DataDirectory | None = None
        self._socket_directory: Path | None = None

    def start(self) -> None:
        """Join the running server or start it; call again to restart one that was killed."""
        with self._explain_errors():
            # The server's account must be able to enter root's directory.
            mode = 0o711 if os.geteuid() == 0 else 0o700
            self._directory.mkdir(mode, parents=True, exist_ok=True)
            with self._lock(self._directory):
                account = account_for(recorded_place(self._directory) / "data")
                place = reachable_place(self._directory, account).resolve()
                with nullcontext() if place == self._directory else self._lock(place):
                    self._start_in(place, account)

    def stop(self) -> None:
        """Release the server; the last process to do so stops it. Does nothing if not started."""
        if self._holder is None or self._data is None:
            return
        try:
            with self._explain_errors(), self._lock(self._data.place):
                # Under the lock, so no other process starts it meanwhile.
                if _try_lock(self._holder):
                    self._data.shutdown()
        finally:
            self._release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def data_directory(self) -> Path:
        """Return PostgreSQL's data directory; Unavailable where it is another home's."""
        place = recorded_place(self._directory)
        check_identity(self._given_directory, place)
        return place / "data"

    @property
    def socket_directory(self) -> Path:
        """Return where the server listens; Unavailable before it is started."""
        if self._socket_directory is None:
            raise Unavailable(f"PostgreSQL in {self._directory} is not started; call start() first")
        return self._socket_directory

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return a connection string that psql and asyncpg understand."""
        name, login = quote(database, safe=""), quote(user, safe="")
        return f"postgresql://{login}@/{name}?host={quote(str(self.socket_directory))}"

    def _start_in(self, place: Path, account: UserAccount) -> None:
        claim_identity(self._given_directory, place)
        with ExitStack() as undo:
            if self._holder is None:
                self._holder = _open(place / "holders")
                undo.callback(self._release)
                fcntl.flock(self._holder, fcntl.LOCK_SH)
            self._data = DataDirectory(place, account, binaries_for(account))
            self._data.create_if_missing()
            running = self._data.wait_for_running(self._start_timeout)
            self._socket_directory = running or self._data.launch(self._start_timeout, self.memory)
            undo.pop_all()
        self.memory_now = self._data.memory()

    @contextmanager
    def _lock(self, place: Path) -> Iterator[None]:
        """Hold the lock on starting and stopping the server there."""
        descriptor = _open(place / "turn")
        try:
            self._wait_for_lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _wait_for_lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + self._start_timeout
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"another process has been starting or stopping PostgreSQL in "
                    f"{self._directory} for {self._start_timeout:g} seconds; wait for it or end it"
                )
            time.sleep(_PAUSE_SECONDS)

    def _release(self) -> None:
        if self._holder is not None:
            os.close(self._holder)
        self._holder = self._data = self._socket_directory = None

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Translate errors of the operating system to Unavailable with what to do."""
        try:
            yield
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "choose another data directory")
            raise Unavailable(
                f"PostgreSQL cannot use {error.filename or self._directory} ({error.strerror}): "
                f"{remedy}"
            ) from error


def _open(file: Path) -> int:
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try_lock(descriptor: int) -> bool:
    """Take the exclusive lock; False where it is not free."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
