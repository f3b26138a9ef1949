"""A home to be killed: its daemons, its commands, its server, and what must hold afterwards."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import asyncpg

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from butlers.db.embedded.liveness import read_pid_file
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.login import login_of
from butlers.db.postgres import Access
from butlers.host.home import Home
from butlers.host.hosting import check_database
from butlers.settings.names import database_name
from chaos.journal import Journal
from chaos.writers import Sources, Writer
from interfaces.daemons import ENVIRONMENT, Daemon, until
from interfaces.forked import Forked, with_defaults

BUTLER, WRITERS, MOST_SECONDS = "general", 4, 30.0
ANSWER = '{"new_facts": [{"subject": "Model", "predicate": "says", "content": "so"}]}'
RUNTIME = f"[runtime]\nkind = \"command\"\ncommand = [\"echo\", '''{ANSWER}''']\n"
_OTHERS = (
    "select count(*) from pg_stat_activity where backend_type = 'client backend' "
    "and pid <> pg_backend_pid()"
)
_HEADS = "select encode(hash, 'hex') from memory_event_chain where tenant_id = 'default'"


def fated(step: int) -> dict[str, str]:
    """The environment of a process that is killed at this step."""
    return with_defaults({"chaos.fate": {"STEP": step}})


class DoomedHome:
    """A home whose processes are killed, and everything its clients were told."""

    def __init__(self, home: Home, chance: Random) -> None:
        self.home, self.chance = home, chance
        self.journal, self.sources = Journal(), Sources()
        self.heads: list[object] = []
        self._writers = 0
        home.create_butler(BUTLER)
        home.butler_file(BUTLER).write_text(RUNTIME)
        home.settings_file.write_text("[server]\nrequests_per_minute = 1000000\n")
        store = TokenStore(home.tokens_file)
        self.token = self.operator = store.create(BUTLER, "default", rights=Right.OPERATE)[1]
        """What its clients call with; and what lets its commands decide."""
        self.server = EmbeddedPostgres(home.database_directory)
        """The home's database server, which stays while others are killed."""

    def dsn(self, butler: str = BUTLER) -> str:
        """How its owner reaches the database of a butler while the server runs."""
        return self.server.dsn(database_name(butler))

    @contextmanager
    def deciding_for(self, butler: str) -> Iterator[None]:
        """Let commands decide for another butler for the block."""
        before, store = self.operator, TokenStore(self.home.tokens_file)
        self.operator = store.create(butler, "default", rights=Right.OPERATE)[1]
        try:
            yield
        finally:
            self.operator = before

    # Writing

    def write_until_killed(
        self,
        step: int,
        seconds: float,
        meanwhile: float = 0.0,
        end: Callable[[], None] = lambda: None,
    ) -> bool:
        """Let clients write to a daemon that is killed at a step, or some seconds after it
        acknowledged something.

        `meanwhile`: kill the database server after so many seconds first. `end`: what else is
        killed at once. Return whether it came as far as being ready.
        """
        daemon = Daemon(self.home, program=(), environment=fated(step))
        try:
            until(lambda: _announced(daemon) or daemon.process.poll() is not None, MOST_SECONDS)
            if daemon.process.poll() is not None:
                return False
            writers = self._begin(daemon)
            if meanwhile:
                time.sleep(meanwhile)
                self.kill_server()
            self._wait(daemon, seconds)
            _kill(daemon)
            end()
            for writer in writers:
                writer.join()
            return True
        finally:
            _kill(daemon)
            daemon.process.wait(MOST_SECONDS)

    def _wait(self, daemon: Daemon, seconds: float) -> None:
        """Wait until the daemon is dead, or the seconds since the first answer are over."""
        before, deadline = self.journal.acknowledged.total(), time.monotonic() + MOST_SECONDS
        while time.monotonic() < deadline and daemon.process.poll() is None:
            time.sleep(0.005)
            if before is not None and self.journal.acknowledged.total() > before:
                before, deadline = None, time.monotonic() + seconds

    def _begin(self, daemon: Daemon) -> list[Writer]:
        writers = []
        for _ in range(WRITERS):
            self._writers += 1
            chance = Random(f"{self.chance.random()} {self._writers}")
            writers.append(Writer(daemon, self.token, self.journal, self.sources, chance))
        return writers

    def command(self, *arguments: object, step: int = 0, seconds: float = 60.0) -> int:
        """Run a command that is killed at a step or after some seconds; return how it ended."""
        words = [*map(str, arguments), "--home", str(self.home.root)]
        with Path(os.devnull).open("r+b") as null, self._said().open("wb") as said:
            streams = [null.fileno(), said.fileno(), said.fileno()]
            given = {"BUTLERS_OPERATOR_TOKEN": self.operator}
            process = Forked(words, ENVIRONMENT | given | fated(step), None, streams)
            deadline = time.monotonic() + seconds
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            with suppress(ProcessLookupError):  # it ended this moment
                process.kill()
            return process.wait(MOST_SECONDS)

    def _said(self) -> Path:
        return self.home.root.parent / "said"

    def carried_out(self, *arguments: object) -> list[str]:
        """Run a command to its end; return what it complained of if it did not succeed."""
        code = self.command(*arguments)
        said = self._said().read_text(errors="replace")
        return [] if code == 0 else [f"butlers {arguments[0]} ended with {code}: {said[-300:]}"]

    def kill_server(self) -> None:
        """Kill the database server with all its processes, as the system does without memory."""
        pid_file = read_pid_file(self.server.data_directory)
        if pid_file is not None:
            kill_family(pid_file.pid)

    # Afterwards

    @contextmanager
    def quiet(self) -> Iterator[str]:
        """The owner's address, once the server runs and has ended what the dead had begun."""
        self.server.start()
        dsn = self.dsn()
        until(lambda: asyncio.run(_value(dsn, _OTHERS)) == 0, MOST_SECONDS)
        yield dsn

    def faults(self) -> list[str]:
        """What is lost, half done or not as its events say."""
        with self.quiet() as dsn:
            faults = self.journal.faults(dsn) + self.disagreements(BUTLER)
            head = asyncio.run(_value(dsn, f"{_HEADS} order by number desc limit 1"))
            known = set(asyncio.run(_column(dsn, _HEADS)))
        faults += [f"the audit log lost {old}" for old in self.heads if old not in known]
        self.heads += [head] if head else []
        return faults

    def disagreements(self, butler: str) -> list[str]:
        """What `butlers check` finds."""
        name = database_name(butler)
        access = Access(self.server.dsn(name), self.server.dsn(name, login_of(name)))
        return asyncio.run(check_database(butler, access))


def _kill(daemon: Daemon) -> None:
    with suppress(ProcessLookupError):  # it ended this moment
        daemon.process.kill()


def kill_family(pid: int) -> None:
    """Kill a process and its children at once."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    family = [pid, *map(int, children.read_text().split())] if children.exists() else [pid]
    for one in family:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def _announced(daemon: Daemon) -> bool:
    try:
        return daemon.running["pid"] == daemon.process.pid
    except (FileNotFoundError, ValueError):
        return False


async def _value(dsn: str, query: str) -> object:
    column = await _column(dsn, query)
    return column[0] if column else None


async def _column(dsn: str, query: str) -> list[object]:
    connection = await asyncpg.connect(dsn)
    try:
        return [row[0] for row in await connection.fetch(query)]
    finally:
        await connection.close()
