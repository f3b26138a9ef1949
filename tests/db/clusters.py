"""Servers of somebody's own for tests: a primary, its standby, and a pooler in front of them."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from butlers.db.embedded.account import UserAccount, account_for
from butlers.db.embedded.binaries import binaries_for

PASSWORD = "of-the-test"  # noqa: S105
POOLER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
max_connections = 60
shared_buffers = 32MB
hot_standby_feedback = on
wal_receiver_status_interval = 1s
log_min_messages = warning
"""
_POOLER = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = {auth_type}
auth_file = {users}
{auth_query}
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
"""


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


class Server:
    """One PostgreSQL over a directory, on a port of its own."""

    def __init__(self, directory: Path, account: UserAccount) -> None:
        self.data = directory
        self.account = account
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}:{PASSWORD}@{self.host}/{database}"

    def made(self) -> "Server":
        word = self.data.with_suffix(".word")
        word.write_text(PASSWORD)
        self.account.give(word)
        how = ["-U", "postgres", f"--pwfile={word}", "--auth=scram-sha-256", "-E", "UTF8"]
        self.run("initdb", *how)
        self.configure(_SETTINGS)
        return self

    def copied_from(self, primary: "Server") -> "Server":
        source = f"host=127.0.0.1 port={primary.port} user=postgres password={PASSWORD}"
        name = f"application_name=standby_{self.port}"
        self.run("pg_basebackup", "-d", f"{source} {name}", "-R", "-c", "fast", "-X", "stream")
        return self

    def configure(self, lines: str) -> None:
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(lines)

    def started(self) -> "Server":
        log = self.data.with_suffix(".log")
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(self._program("postgres")), "-D", str(self.data), "-p", str(self.port)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/",
                start_new_session=True, **self.account._identity(),
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while self._says_ready().returncode:
            assert self.process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        return self

    def _says_ready(self) -> subprocess.CompletedProcess[bytes]:
        return self.account.run(
            [self._program("pg_isready"), "-h", "127.0.0.1", "-p", str(self.port)]
        )

    def kill(self) -> None:
        """As if the machine had lost its power: nobody says goodbye."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for pid in (self.process.pid, *map(int, children.split())):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=30)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()

    def promote(self) -> None:
        self.run("pg_ctl", "promote", "-w")

    def run(self, program: str, *arguments: str) -> None:
        done = self.account.run([self._program(program), "-D", self.data, *arguments])
        assert done.returncode == 0, done.stdout.decode()

    def _program(self, name: str) -> Path:
        return binaries_for(self.account).directory / name


@contextmanager
def servers() -> Iterator["Servers"]:
    directory = Path(tempfile.mkdtemp(prefix="servers-")).resolve()
    directory.chmod(0o755)
    found = Servers(directory)
    try:
        yield found
    finally:
        for one in reversed(found.known):
            one.stop()
        shutil.rmtree(directory)


class Servers:
    """Those of one test, all stopped in the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.account = account_for(directory / "data")
        self.account.give(directory)
        self.known: list[Server | Pooler] = []

    def primary(self) -> Server:
        return self._kept(Server(self.directory / "primary", self.account)).made().started()

    def standby(self, primary: Server) -> Server:
        place = self.directory / f"standby{len(self.known)}"
        return self._kept(Server(place, self.account)).copied_from(primary).started()

    def pooler(self, server: Server, size: int = 2, *, knows_logins: bool = True) -> "Pooler":
        found = Pooler(self.directory / f"pooler{len(self.known)}", server, size, knows_logins)
        self.known.append(found)
        return found

    def _kept(self, server: Server) -> Server:
        self.known.append(server)
        return server


class Pooler:
    """PgBouncer in transaction mode; one that knows no logins lets in that of the URL alone."""

    def __init__(self, place: Path, server: Server, size: int, knows_logins: bool) -> None:
        self.port = free_port()
        place.mkdir()
        users, settings = place / "users.txt", place / "pgbouncer.ini"
        users.write_text(f'"postgres" "{PASSWORD}"\n')
        settings.write_text(
            _POOLER.format(
                server=server.port,
                port=self.port,
                users=users,
                size=size,
                auth_type="scram-sha-256",
                auth_query="auth_user = postgres" if knows_logins else "",
            )  # fmt: skip
        )
        for path in (place, users, settings):
            server.account.give(path)
        self._log = place / "log"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(POOLER), str(settings)], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, cwd="/", start_new_session=True, **server.account._identity(),
            )  # fmt: skip
        self._await()

    def _await(self) -> None:
        deadline = time.monotonic() + 20
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert self.process.poll() is None and time.monotonic() < deadline, self.log
            time.sleep(0.05)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=20)
