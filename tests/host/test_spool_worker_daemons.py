"""Real daemons and real hooks: every session arrives once, whoever was down or killed meanwhile."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.host.status import running
from db.databases import connected as connected_to
from host.killed_daemon import STEPS
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, until, up
from interfaces.furnished import furnished_home
from sessions.test_hooks import run_hook

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with furnished_home("general") as home:
        home.create_butler("general")
        ensure_hook_token(home, "general", "default")
        yield home


def end(home: Home, session: str, directory: Path, text: str = "Oil the chain.") -> None:
    """A session of an agent ends, as its hook is told."""
    lines = [
        {"type": "user", "message": {"role": "user", "content": text}, "timestamp": "1"},
        {"type": "assistant", "message": {"role": "assistant", "content": "Oiled."},
         "timestamp": "2"},
    ]  # fmt: skip
    file = directory / f"{session}.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    told = {"session_id": session, "transcript_path": str(file), "cwd": "/x/shop"}
    assert run_hook(home, {"hook_event_name": "Stop", **told})[0] == ""
    assert run_hook(home, {"hook_event_name": "SessionEnd", **told})[0] == ""


def counts(home: Home) -> dict[str, int]:
    """How many episodes each session left."""

    async def found() -> dict[str, int]:
        async with connected_to(DatabaseServer(home).running_url("general")) as database:
            rows = await database.fetch(
                "select metadata->>'session' as session, count(*) as n from episodes "
                "where piece is null group by 1"
            )
            return {row["session"]: row["n"] for row in rows}

    return asyncio.run(found())


def is_empty(home: Home) -> bool:
    return not [*(home.root / "spool").glob("*~*.json")]


@pytest.mark.contract("P1")
def test_sessions_that_end_while_nothing_is_up_are_stored_when_it_is(
    home: Home, tmp_path: Path
) -> None:
    sessions = [f"down-{number}" for number in range(10)]
    for session in sessions:
        end(home, session, tmp_path)
    told = butlers("status", "--home", home.root)
    assert "sessions waiting: 10 sessions" in told.stdout
    with up(home):
        until(lambda: is_empty(home))
        assert counts(home) == dict.fromkeys(sessions, 1)
        told = butlers("status", "--home", home.root)
        assert "waiting" not in told.stdout
        # And while it is up, at once.
        end(home, "while-up", tmp_path)
        before = time.monotonic()
        until(lambda: is_empty(home))
        assert time.monotonic() - before < 10
        assert counts(home)["while-up"] == 1
        rows = json.loads(butlers("sessions", "list", "--json", "--home", home.root).stdout)
        logged = {row["id"]: (row["kind"], row["outcome"], len(row["stored"])) for row in rows}
        assert logged["while-up"] == ("agent", "ok", 1)
        assert logged.keys() == {*sessions, "while-up"}


def test_a_daemon_killed_at_every_step_neither_loses_nor_doubles(
    home: Home, tmp_path: Path
) -> None:
    sessions = [f"killed-{step}" for step in range(1, STEPS + 1)]
    for step, session in enumerate(sessions, 1):
        end(home, session, tmp_path)
        program = (sys.executable, str(HERE / "killed_daemon.py"), str(step), session)
        assert Daemon(home, program=program).process.wait(timeout=60) == -signal.SIGKILL
        (tmp_path / f"{session}.jsonl").unlink()
    with up(home):
        until(lambda: is_empty(home))
        found = counts(home)
        assert {session: found.get(session) for session in sessions} == dict.fromkeys(sessions, 1)


def test_a_spool_that_cannot_be_read_keeps_no_butler_from_serving(tmp_path: Path) -> None:
    with furnished_home("general") as home:
        home.create_butler("general")
        (home.root / "spool").write_text("in the way")
        with up(home) as daemon:
            assert daemon.health() == 200
            until(lambda: '"sessions wait"' in daemon.log)
            told = butlers("status", "--home", home.root)
            assert (told.returncode, told.stderr) == (0, "")
            assert "spool cannot be read" in told.stdout
            told = butlers("doctor", "--home", home.root)
            assert "spool" in told.stdout


def test_a_hook_that_may_starts_the_butlers_and_only_once(tmp_path: Path) -> None:
    with furnished_home("general") as home:
        home.create_butler("general")
        home.settings_file.write_text("[server]\nport = 0\n")
        ensure_hook_token(home, "general", "default")
        command = [sys.executable, "-m", "butlers.hook", "general", "--home", str(home.root)]
        event = json.dumps({"hook_event_name": "SessionStart", "session_id": "x"})
        hooks = [_started([*command, "--start"], event) for _ in range(4)]
        assert [hook.wait(timeout=20) for hook in hooks] == [0] * 4
        try:
            until(lambda: running(home) is not None, 60)
            notes = (home.root / "hooks" / "without-memory.jsonl").read_text()
            assert notes.count("the daemon was not running, and was started") == 1
            assert notes.count("the daemon was not running") == 4
        finally:
            assert butlers("stop", "--home", home.root).returncode == 0


def _started(command: list[str], event: str) -> "subprocess.Popen[str]":
    hook = subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert hook.stdin is not None
    hook.stdin.write(event)
    hook.stdin.close()
    return hook
