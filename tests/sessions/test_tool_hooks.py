"""The hook program around tool calls: with a daemon, without one, and where nothing is known."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from butlers import hook
from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.sessions import tool_digest
from butlers.sessions.agent_calls import digest
from interfaces.daemons import Daemon, butlers, until, up
from interfaces.furnished import furnished_home
from sessions.test_hooks import announce, client_of, run_hook, silent_port

__all__ = ["silent_port"]
RULE = "Never run `make deploy` on Fridays"
SHOP = "/srv/nowhere/shop"
BUSY = (
    "Exit code 1\nError response from daemon: driver failed programming external connectivity on "
    "endpoint shop-db-1 ({id}): Bind for 0.0.0.0:5432 failed: port is already allocated"
)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with furnished_home("general") as home, up(home) as running:
        stored = butlers("memory", "store-rule", RULE, "--home", home.root)
        assert stored.returncode == 0
        ensure_hook_token(home, "general", "default")
        with client_of(running) as client:
            # The first to ask waits for the database to be ready.
            url = f"{running.url}/butlers/general/hooks/PreToolUse"
            event = {"session_id": "warm", "tool_input": {"command": "make deploy"}}
            until(lambda: RULE in client.post(url, json=event).text)
        yield running


def before(command: str, session: str, **more: Any) -> dict[str, Any]:
    given = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": SHOP}
    return {"hook_event_name": "PreToolUse", "session_id": session, **given, **more}


def failed(command: str, output: str, session: str) -> dict[str, Any]:
    return before(command, session, hook_event_name="PostToolUseFailure", error=output)


def digests(home: Home) -> list[Path]:
    return sorted((home.root / "hooks").glob("*.digest*"))


def context_of(printed: str) -> dict[str, str]:
    output: dict[str, str] = json.loads(printed)["hookSpecificOutput"]
    return output


@pytest.mark.contract("N4.2")
def test_a_rule_is_told_before_its_command_and_nothing_before_others(daemon: Daemon) -> None:
    printed, _ = run_hook(daemon.home, before("cd infra && make deploy", "first"))
    told = context_of(printed)
    assert told["hookEventName"] == "PreToolUse"
    assert RULE in told["additionalContext"]
    assert "permissionDecision" not in printed
    assert run_hook(daemon.home, before("make deploy", "first"))[0] == ""
    assert run_hook(daemon.home, before("make test", "other"))[0] == ""


def test_a_fix_found_in_one_session_is_told_in_another(daemon: Daemon, tmp_path: Path) -> None:
    transcript = tmp_path / "session.jsonl"
    transcript.write_text("\n".join(map(json.dumps, session_lines())))
    ended = {"hook_event_name": "SessionEnd", "transcript_path": str(transcript), "cwd": SHOP}
    run_hook(daemon.home, ended)
    until(lambda: not list((daemon.home.root / "spool").glob("*.json")))
    for file in digests(daemon.home):
        file.unlink()
    event = failed("docker compose up -d db", BUSY.format(id="aa01b2c3d4e5"), "later")
    printed, _ = run_hook(daemon.home, event)
    told = context_of(printed)
    assert told["hookEventName"] == "PostToolUseFailure"
    assert "systemctl stop postgresql" in told["additionalContext"]
    assert run_hook(daemon.home, failed("docker ps", "Cannot connect to the host", "l2"))[0] == ""
    assert run_hook(daemon.home, event | {"cwd": "/srv/nowhere/other", "session_id": "l3"})[0] == ""


def session_lines() -> Iterator[dict[str, Any]]:
    """A session in which a command fails, something is done about it, and it succeeds."""
    turns: list[tuple[str, Any]] = [("user", "Start the database with docker compose, please.")]
    for number, (command, output, is_error) in enumerate(
        [
            ("docker compose up -d", BUSY.format(id="5f1d9e0c2a41"), True),
            ("sudo systemctl stop postgresql", "", False),
            ("docker compose up -d", "Container shop-db-1 Started", False),
        ]
    ):
        use = {"type": "tool_use", "id": f"t{number}", "name": "Bash"}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": output}
        turns.append(("assistant", [use | {"input": {"command": command}}]))
        turns.append(("user", [result | {"is_error": is_error}]))
    turns.append(
        ("assistant", "The local PostgreSQL held port 5432; I stopped it and it runs now.")
    )
    for number, (role, content) in enumerate(turns):
        at = f"2026-11-02T09:00:{number:02}.000Z"
        yield {"type": role, "message": {"role": role, "content": content}, "timestamp": at}


@pytest.mark.contract("N4.4")
@pytest.mark.parametrize("event", hook.TOOL_EVENTS)
def test_a_daemon_that_hangs_delays_one_tool_call_a_little(
    tmp_path: Path, silent_port: int, event: str
) -> None:
    home = quiet_home(tmp_path)
    announce(home, silent_port)
    call = failed("make deploy", "make: cannot deploy", "s") | {"hook_event_name": event}
    printed, seconds = run_hook(home, call)
    assert (printed, (home.root / "hooks" / "unanswered").exists()) == ("", True)
    assert seconds < 1.5
    # While it is silent no other call waits for it at all: the mark is not made anew.
    marked = (home.root / "hooks" / "unanswered").read_text()
    run_hook(home, call)
    assert (home.root / "hooks" / "unanswered").read_text() == marked


def quiet_home(tmp_path: Path) -> Home:
    """A home with a token, in which nothing runs."""
    home = Home(tmp_path / "home")
    home.create_butler("general")
    ensure_hook_token(home, "general", "default")
    return home


def test_where_the_digest_has_nothing_nobody_is_asked(tmp_path: Path, silent_port: int) -> None:
    home = quiet_home(tmp_path)
    announce(home, silent_port)
    tool_digest.write(str(home.root), "general", SHOP, digest({"make deploy", "?docker"}))
    for event in (
        before("make test", "s"),
        before("ls", "s"),
        failed("cargo build", "error: cannot build", "s"),
        failed("docker ps", "", "s"),
    ):
        assert run_hook(home, event)[0] == ""
    assert not (home.root / "hooks" / "unanswered").exists()
    run_hook(home, before("make deploy", "s"))
    assert (home.root / "hooks" / "unanswered").exists()


def test_a_digest_is_fetched_once_a_minute(daemon: Daemon) -> None:
    for file in digests(daemon.home):
        file.unlink()
    assert run_hook(daemon.home, before("make test", "minute"))[0] == ""
    (file,) = digests(daemon.home)
    made = file.read_text()
    assert "deploy" not in made
    run_hook(daemon.home, before("make deploy", "minute"))
    assert file.read_text() == made


def test_strange_calls_are_passed_over(daemon: Daemon) -> None:
    for more in (
        {"tool_input": None},
        {"session_id": None},
        {"tool_input": {"command": 9}},
    ):
        assert run_hook(daemon.home, before("make deploy", "strange") | more)[0] == ""


def test_a_call_costs_little(daemon: Daemon) -> None:
    def seconds(command: str, session: str) -> float:
        # Of the processor's time: the machine may be busy with other tests.
        started = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_hook(daemon.home, before(command, session))
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (ended.ru_utime - started.ru_utime) + (ended.ru_stime - started.ru_stime)

    assert min(seconds("ls", "cost") for _ in range(5)) < 0.05
    assert min(seconds("make deploy", f"cost-{number}") for number in range(5)) < 0.08
