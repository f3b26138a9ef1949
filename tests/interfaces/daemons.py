"""Real `butlers up` processes for tests, each over a home of its own."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from butlers.auth.rights import Right
from butlers.auth.token_grant import TokenGrant
from butlers.auth.tokens import new_token
from butlers.clock import utc_now
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.host.home import Home
from butlers.host.home_tokens import home_tokens
from interfaces.forked import Forked, run_forked

ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
ENVIRONMENT["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
PROGRAM = (sys.executable, "-m", "butlers")


def operating(home: Home, butler: str = "general", tenant: str = "default") -> dict[str, str]:
    """The environment of a command that may decide: an operator token made for it is passed."""
    record, token = new_token(butler, TokenGrant(tenant, rights=Right.OPERATE), utc_now())
    with ThreadPoolExecutor(1) as other:  # a loop may run in this thread
        other.submit(asyncio.run, home_tokens(home).keep(record)).result()
    return ENVIRONMENT | {"BUTLERS_OPERATOR_TOKEN": token}


@contextmanager
def temporary_home() -> Iterator[Home]:
    """A home that does not exist yet, in which even root's database stays inside."""
    directory = Path(tempfile.mkdtemp(prefix="home-")).resolve()
    directory.chmod(0o755)
    root = directory / "home"
    root.mkdir(0o711)
    try:
        yield Home(root)
    finally:
        _stop_database(Home(root))
        shutil.rmtree(directory)


def _stop_database(home: Home) -> None:
    """A daemon that a test killed leaves its server to the next one; there is none."""
    server = EmbeddedPostgres(home.database_directory)
    if (server.data_directory / "postmaster.pid").exists():
        server.start()
        server.stop()


def butlers(
    *arguments: object, program: Sequence[str] = (), **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run the real command to its end: forked, unless a program or a stream is given."""
    options = {"env": ENVIRONMENT, "timeout": 60} | how
    if not program and options.keys() <= {"env", "timeout", "input", "cwd"}:
        return run_forked([*map(str, arguments)], **options)
    command = [*(program or PROGRAM), *map(str, arguments)]
    how = {"capture_output": True, "start_new_session": True} | options
    return subprocess.run(command, check=False, text=True, **how)


class Daemon:
    """One `butlers up`, with what it said in files beside its home; without a program, forked."""

    def __init__(
        self,
        home: Home,
        *arguments: object,
        program: Sequence[str] = PROGRAM,
        cwd: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.home = home
        beside = home.root.parent
        self._out, self._err = (beside / f"{name}{home.process}" for name in ("stdout", "stderr"))
        command = ["up", "--home", str(home.root), *map(str, arguments)]
        if "--port" not in arguments:
            command += ["--port", "0"]
        chosen = ENVIRONMENT | (environment or {})
        self.process: subprocess.Popen[bytes] | Forked
        with self._out.open("w") as out, self._err.open("w") as err:
            if program:
                self.process = subprocess.Popen(
                    [*program, *command], env=chosen, cwd=cwd, stdout=out, stderr=err
                )
            else:
                self.process = Forked(command, chosen, cwd, [0, out.fileno(), err.fileno()])

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    @property
    def log(self) -> str:
        return self.home.log_file.read_text()

    @property
    def running(self) -> dict[str, Any]:
        return dict(json.loads(self.home.run_file.read_text()))

    @property
    def url(self) -> str:
        return str(self.running["url"])

    @property
    def first_token(self) -> str:
        return next(word for word in self.stdout.split("=") if word.startswith("btl_")).split()[0]

    def mcp(self, butler: str = "general") -> str:
        return str(self.running["butlers"][butler]["mcp"])

    def ready(self, seconds: float = 60.0) -> "Daemon":
        until(lambda: self._is_announced() or self.process.poll() is not None, seconds)
        assert self.process.poll() is None, self.stderr
        return self

    def health(self) -> int:
        with httpx2.Client(trust_env=False, timeout=20) as client:
            return client.get(f"{self.url}/health").status_code

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=30)

    def _is_announced(self) -> bool:
        """Whether it can be found, and has said how to connect."""
        try:
            return self.running["pid"] == self.process.pid and self.stdout != ""
        except FileNotFoundError:
            return False


@contextmanager
def up(
    home: Home,
    *arguments: object,
    program: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> Iterator[Daemon]:
    """A daemon that is ready, forked unless a program is given; stopped at the end if need be."""
    daemon = Daemon(home, *arguments, program=program, environment=environment)
    try:
        yield daemon.ready()
    finally:
        daemon.stop()


def until(true: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
