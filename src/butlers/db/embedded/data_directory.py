"""A PostgreSQL data directory: create it, start and stop the server over it."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from butlers.atomic_files import flush_directory
from butlers.db.embedded.account import UserAccount
from butlers.db.embedded.binaries import Binaries
from butlers.db.embedded.configuration import (
    AUTO,
    configuration,
    initdb_options,
    read_memory_setting,
)
from butlers.db.embedded.directories import socket_directory_in
from butlers.db.embedded.liveness import (
    SOCKET_NAME,
    PidFile,
    SocketReply,
    ask,
    processes_over,
    read_pid_file,
)
from butlers.errors import Unavailable

_EXTENSIONS = Path(__file__).parent / "extensions" / "extension"
_INCLUDED = "butlers.conf"
_FULL_BELOW_BYTES = 32 * 1024 * 1024  # less than two segments of write-ahead log
_LOG_KEPT_BYTES = 10 * 1024 * 1024
_SILENCE_SECONDS = 30.0
_STOP_SECONDS = 60
_PAUSE_SECONDS = 0.05


class DataDirectory:
    """A data directory with the programs and the account that run a server over it."""

    def __init__(self, place: Path, account: UserAccount, binaries: Binaries) -> None:
        self.data = (place / "data").resolve()
        self.place = place
        self._log = place / "server.log"
        self._account = account
        self._binaries = binaries

    def create_if_missing(self) -> None:
        """Create the data directory if missing; Unavailable where another version made it."""
        if (self.data / "PG_VERSION").exists():
            self._require_same_major()
        elif self.data.exists() and any(self.data.iterdir()):
            raise Unavailable(
                f"{self.data} is not a PostgreSQL data directory; move it away and start again"
            )
        else:
            self._initialise()

    def wait_for_running(self, timeout: float) -> Path | None:
        """Wait for a running server and return where it listens; None if there is none."""
        began = time.monotonic()
        while True:
            listed = read_pid_file(self.data)
            answer = self._ask(listed)
            if answer is SocketReply.WELCOME and listed is not None:
                return listed.socket_directory
            processes = processes_over(self.data)
            if answer is SocketReply.SILENCE and not processes:
                return None
            patience = timeout if answer is SocketReply.NOT_NOW else min(timeout, _SILENCE_SECONDS)
            if time.monotonic() - began > patience:
                raise self._unresponsive(answer, listed, patience)
            time.sleep(_PAUSE_SECONDS)

    def launch(self, timeout: float, memory: str = AUTO) -> Path:
        """Start the server and return where it listens; remove what a killed one left first."""
        socket_directory = self._socket_directory()
        text = configuration(socket_directory, self.place / "extensions", memory)
        self._copy_extensions()
        self._write(_INCLUDED, text)
        self._remove_leftovers(socket_directory)
        with self._open_log() as log:
            began = log.tell()
            ended = self._pg_ctl(["start", "-s", "-w", "-t", str(max(1, round(timeout)))], log)
        if ended.returncode:
            if processes_over(self.data):
                raise self._still_starting(self._log_since(began), timeout)
            raise self._failure("did not start", self._log_since(began))
        running = self.wait_for_running(timeout)
        if running is None:
            raise self._failure("ended right after its start", self._log_since(began))
        return running

    def memory(self) -> str:
        """Return the memory setting that the server was started with."""
        return read_memory_setting((self.data / _INCLUDED).read_text(errors="surrogateescape"))

    def shutdown(self) -> None:
        """Stop the server if it runs; clients are disconnected.

        A server that takes longer than the wait ends by itself; the next start waits for it.
        """
        listed = read_pid_file(self.data)
        if listed is None:
            return
        # A pid alone proves nothing: another program may have it by now, and would be signalled.
        alive = listed.pid in (processes_over(self.data) or set())
        if alive or self._ask(listed) is not SocketReply.SILENCE:
            with self._open_log() as log:
                self._pg_ctl(["stop", "-s", "-m", "fast", "-w", "-t", str(_STOP_SECONDS)], log)
        if listed.socket_directory and listed.socket_directory.parent != self.place:
            # Another server may use it: then it is not empty.
            with suppress(OSError):
                listed.socket_directory.rmdir()

    def _socket_directory(self) -> Path:
        """Return a directory for the socket, the last one if possible; never a copied one."""
        listed = read_pid_file(self.data)
        ours = listed.socket_directory if listed and listed.data == self.data else None
        return socket_directory_in(self.place, self._account, ours)

    def _ask(self, listed: PidFile | None) -> SocketReply:
        """Ask the server of this directory; a copied pid file is that of another."""
        if listed is None or listed.data != self.data or listed.socket_directory is None:
            return SocketReply.SILENCE
        is_ours = self._account.owns_alone(listed.socket_directory)
        return ask(listed.socket_directory) if is_ours else SocketReply.SILENCE

    def _require_same_major(self) -> None:
        found, ours = (self.data / "PG_VERSION").read_text().strip(), self._binaries.major
        if found != str(ours):
            raise Unavailable(
                f"{self.data} was made by PostgreSQL {found}, this is PostgreSQL {ours}; carry the "
                f"data over with pg_dump of version {found} and restore it here, or move the "
                "directory away to start with an empty database"
            )

    def _initialise(self) -> None:
        """Create a data directory under another name and rename it when complete."""
        self._remove_unfinished()
        unfinished = Path(tempfile.mkdtemp(prefix="initdb-", dir=self.place))
        try:
            self._account.make_private(unfinished)
            self._initdb(unfinished)
            unfinished.rename(self.data)
            flush_directory(self.place)
        finally:
            # Once more: the initdb of a process that was killed may have been writing until now.
            self._remove_unfinished()

    def _remove_unfinished(self) -> None:
        for unfinished in self.place.glob("initdb-*"):
            shutil.rmtree(unfinished, ignore_errors=True)

    def _initdb(self, directory: Path) -> None:
        # A pipe is safe here, nothing outlives initdb; a file might lie on the disk that is full.
        initdb = self._binaries.directory / "initdb"
        made = self._account.run([initdb, "-D", directory, *initdb_options(sys.platform)])
        if made.returncode:
            raise self._failure("could not be set up", made.stdout.decode(errors="replace"))
        settings = directory / "postgresql.conf"
        with settings.open("a", encoding="utf-8") as file:
            file.write(f"\ninclude_if_exists = '{_INCLUDED}'\n")
            file.flush()
            os.fsync(file.fileno())

    def _copy_extensions(self) -> None:
        """Copy our extensions where the server's account can read them."""
        target = self.place / "extensions" / "extension"
        target.mkdir(parents=True, exist_ok=True)
        for directory in (target.parent, target):
            directory.chmod(0o755)
        for source in _EXTENSIONS.iterdir():
            shutil.copyfile(source, target / source.name)
            (target / source.name).chmod(0o644)

    def _write(self, name: str, text: str) -> None:
        """Replace a file of the data directory, never following a link that was put there."""
        descriptor, unfinished = tempfile.mkstemp(prefix=f"{name}.", dir=self.data)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        self._account.give(Path(unfinished))
        Path(unfinished).replace(self.data / name)

    def _remove_leftovers(self, socket_directory: Path) -> None:
        """Remove lock files of a server that is gone: PostgreSQL trusts them if the pid was reused.

        Where processes cannot be listed they stay, and PostgreSQL itself decides.
        """
        if processes_over(self.data) == set():
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            for name in (SOCKET_NAME, f"{SOCKET_NAME}.lock"):
                (socket_directory / name).unlink(missing_ok=True)

    def _open_log(self) -> IO[bytes]:
        if self._log.exists() and self._log.stat().st_size > _LOG_KEPT_BYTES:
            self._log.replace(self._log.with_suffix(".log.1"))
        self._log.touch(mode=0o600)
        self._account.give(self._log)
        return self._log.open("ab")

    def _log_since(self, position: int) -> str:
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(position)
            return file.read().decode(errors="replace")

    def _pg_ctl(self, arguments: list[str], log: IO[bytes]) -> subprocess.CompletedProcess[bytes]:
        # The directory goes by environment: pg_ctl would hand an argument through a shell.
        command: list[str | Path] = [self._binaries.directory / "pg_ctl", *arguments]
        return self._account.run(command, output=log, environment={"PGDATA": str(self.data)})

    def _unresponsive(
        self, answer: SocketReply, listed: PidFile | None, waited: float
    ) -> Unavailable:
        if answer is SocketReply.NOT_NOW:
            return self._still_starting(self._log_since(0), waited)
        processes = processes_over(self.data) or set()
        listed_pid = {listed.pid} & processes if listed else set()  # the server, not a backend
        pid = min(listed_pid or processes, default=0)
        return Unavailable(
            f"a PostgreSQL server (process {pid}) uses {self.data} but does not answer; end it "
            f"with kill -INT {pid} and start again"
        )

    def _still_starting(self, output: str, waited: float) -> Unavailable:
        return Unavailable(
            f"PostgreSQL in {self.data} was not ready after {waited:g} seconds and is still "
            f"starting; try again in a while, or see {self._log}: {_last_lines(output)}"
        )

    def _failure(self, what: str, output: str) -> Unavailable:
        full = shutil.disk_usage(self.place).free < _FULL_BELOW_BYTES
        if full or "No space left on device" in output:
            return Unavailable(
                f"PostgreSQL in {self.place} {what} because the disk is full; free some space and "
                "start again"
            )
        if "could not map anonymous shared memory" in output:
            return Unavailable(
                f"PostgreSQL in {self.place} {what} because the system does not give it the "
                'memory; set database.memory to less in butlers.toml, "128MB" for one'
            )
        return Unavailable(
            f"PostgreSQL in {self.place} {what}; mend what it complains of and start again, its "
            f"log is {self._log}: {_last_lines(output)}"
        )


def _last_lines(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-4:]) or "no output"
