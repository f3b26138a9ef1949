"""The hook program and what it calls: always exit 0, never long, and only for who may."""

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from butlers import hook
from butlers.auth.token_store import TokenStore
from butlers.errors import Unavailable
from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.interfaces.http.hooks import MAX_BODY_BYTES, hook_routes
from butlers.kernel.throttle import ConcurrencyLimiter
from butlers.memory.handle import Memory
from butlers.sessions.session import SessionMemory
from butlers.sessions.tool_memory import ToolMemory
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, until, up
from interfaces.furnished import furnished_home

FACT = "the spare key hangs behind the calendar"
SESSION = "2c0097b0-63b9-4aff-974c-3f10e9e95ab6"
LINES = [
    {"type": "user", "message": {"role": "user", "content": "Oil the chain."}, "timestamp": "1"},
    {"type": "assistant", "message": {"role": "assistant", "content": "Oiled."}, "timestamp": "2"},
]


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with furnished_home("general") as home, up(home) as running:
        fact = ("house", "key", FACT, "--home", home.root)
        assert butlers("memory", "store-fact", *fact).returncode == 0
        ensure_hook_token(home, "general", "default")
        with client_of(running) as client:
            # The first to ask waits for the model to be read.
            url = f"{running.url}/butlers/general/hooks/SessionStart"
            until(lambda: FACT in client.post(url, json={"session_id": "warm"}).text)
        yield running


def client_of(daemon: Daemon) -> httpx2.Client:
    token = daemon.home.hook_token_file("general").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.Client(trust_env=False, timeout=30, headers=headers)


@pytest.fixture
def client(daemon: Daemon) -> Iterator[httpx2.Client]:
    with client_of(daemon) as client:
        client.base_url = f"{daemon.url}/butlers/general/hooks/"
        yield client


@pytest.fixture
def empty_home(tmp_path: Path) -> Home:
    """A home with a token, in which nothing runs."""
    home = Home(tmp_path / "home")
    home.create_butler("general")
    ensure_hook_token(home, "general", "default")
    return home


def run_hook(
    home: Home, event: dict[str, Any] | str, *options: str, **how: Any
) -> tuple[str, float]:
    """What the hook prints, and how long it took; it always ends well and complains of nothing."""
    given = event if isinstance(event, str) else json.dumps({"session_id": SESSION, **event})
    command = [sys.executable, "-P", "-m", "butlers.hook", "general", "--home", str(home.root)]
    command += options
    started = time.monotonic()
    done = subprocess.run(
        command, input=given, env=ENVIRONMENT, capture_output=True, text=True, timeout=20, **how
    )
    assert done.returncode == 0
    assert done.stderr == ""
    return done.stdout, time.monotonic() - started


def start_event(**more: str) -> dict[str, str]:
    return {"hook_event_name": "SessionStart", "cwd": "/home/ann/house", **more}


def announce(home: Home, port: int, pid: int | None = None) -> None:
    running = {"url": f"http://127.0.0.1:{port}", "pid": pid or os.getpid(), "butlers": {}}
    home.run_file.write_text(json.dumps(running))


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Somebody who takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# The program, with a butler that is up


@pytest.mark.contract("N4.2", "P2")
def test_a_session_that_starts_is_told_what_is_known(daemon: Daemon) -> None:
    told, _ = run_hook(daemon.home, start_event())
    output = json.loads(told)["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    assert FACT in output["additionalContext"]
    assert len(output["additionalContext"]) <= 9_900


@pytest.mark.parametrize(
    ("agent", "event", "where"),
    [
        ("gemini-cli", {"hook_event_name": "SessionStart"}, ("hookSpecificOutput",)),
        ("cline", {"hookName": "TaskStart", "taskId": "t1"}, ("contextModification",)),
        ("cursor", {"hook_event_name": "sessionStart"}, ("additional_context",)),
        ("copilot", {"source": "new"}, ("additionalContext",)),
    ],
)
def test_every_agent_is_told_in_its_own_form(
    daemon: Daemon, agent: str, event: dict[str, str], where: tuple[str]
) -> None:
    told = json.loads(run_hook(daemon.home, event, "--agent", agent)[0])
    assert tuple(told) == where
    assert FACT in str(told)


def test_a_prompt_is_told_what_bears_on_it_and_else_nothing(daemon: Daemon) -> None:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "prompts"}
    told, _ = run_hook(daemon.home, event | {"prompt": "Where does the spare key hang?"})
    output = json.loads(told)["hookSpecificOutput"]
    assert output["hookEventName"] == "UserPromptSubmit"
    assert FACT in output["additionalContext"]
    unrelated = "Translate this French poem about the sea."
    assert run_hook(daemon.home, event | {"prompt": unrelated, "session_id": "p2"})[0] == ""


@pytest.mark.contract("P1", "N4.2")
def test_a_session_that_ends_is_remembered_once(daemon: Daemon, tmp_path: Path) -> None:
    transcript = tmp_path / "session.jsonl"
    transcript.write_text("\n".join(map(json.dumps, LINES)))
    event = {"hook_event_name": "SessionEnd", "transcript_path": str(transcript), "cwd": "/x/shop"}
    for _ in range(2):
        assert run_hook(daemon.home, event)[0] == ""
    until(lambda: not waiting(daemon.home))
    found = butlers("memory", "search", "chain", "--type", "episode", "--json", "--home",
                    daemon.home.root)  # fmt: skip
    (episode,) = [one for one in json.loads(found.stdout) if not one["piece"]]
    assert episode["content"] == "Request: Oil the chain.\nOutcome: Oiled."
    assert episode["metadata"]["project"] == "shop"


@pytest.mark.contract("P1")
def test_a_session_is_remembered_though_nobody_waits_to_hear_so(
    daemon: Daemon, client: httpx2.Client
) -> None:
    lines = [LINES[0], {**LINES[1], "message": {"role": "assistant", "content": "Polished."}}]
    told = {"session_id": "impatient", "transcript": "\n".join(map(json.dumps, lines))}
    request = client.build_request("POST", "SessionEnd", json=told)
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    with socket.create_connection(("127.0.0.1", request.url.port)) as line:
        line.sendall(f"POST {request.url.path} HTTP/1.1\r\n{head}\r\n".encode() + request.content)
    until(lambda: '"session remembered"' in daemon.log and "impatient" in stored(daemon))


def waiting(home: Home) -> list[str]:
    """The entries of the spool."""
    return sorted(file.name for file in (home.root / "spool").glob("*.json"))


def stored(daemon: Daemon) -> str:
    return butlers("memory", "search", "polished", "--type", "episode", "--json", "--home",
                   daemon.home.root).stdout  # fmt: skip


# The program, with a butler that is not


@pytest.mark.contract("N4.4")
@pytest.mark.parametrize("event", [*hook.EVENTS, "SubagentStop", "PreToolUse"])
def test_without_a_daemon_nothing_is_said(empty_home: Home, event: str) -> None:
    assert run_hook(empty_home, {"hook_event_name": event, "prompt": "x"})[0] == ""


@pytest.mark.contract("N4.4")
@pytest.mark.parametrize("event", hook.EVENTS)
def test_a_daemon_that_hangs_is_not_waited_for(
    empty_home: Home, silent_port: int, tmp_path: Path, event: str
) -> None:
    announce(empty_home, silent_port)
    (tmp_path / "t").write_text("x")
    told = {"hook_event_name": event, "prompt": "x", "transcript_path": str(tmp_path / "t")}
    printed, seconds = run_hook(empty_home, told)
    assert printed == ""
    assert seconds < 3.5


@pytest.mark.parametrize("reply", [b"", b"nonsense", b"HTTP/1.0 200 OK\r\n\r\n[1]", b"\r\n\r\n{}"])
def test_a_daemon_that_answers_nonsense_is_passed_over(empty_home: Home, reply: bytes) -> None:
    def answer() -> None:
        line, _ = listener.accept()
        with line:
            line.recv(65_536)
            line.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        announce(empty_home, listener.getsockname()[1])
        assert run_hook(empty_home, start_event())[0] == ""


def test_who_did_not_answer_is_soon_given_up_on_and_may_come_back(
    daemon: Daemon, empty_home: Home, silent_port: int
) -> None:
    announce(empty_home, silent_port)
    run_hook(empty_home, start_event())
    mark = empty_home.root / "hooks" / "unanswered"
    assert mark.exists()
    assert min(run_hook(empty_home, start_event())[1] for _ in range(2)) < 1.2
    # It answers, though with a refusal, for this home's token is not its own.
    announce(empty_home, int(daemon.url.rpartition(":")[2]))
    until(lambda: run_hook(empty_home, start_event()) and not mark.exists())


@pytest.mark.contract("N4.4")
def test_a_daemon_that_is_stopped_in_its_tracks_delays_nobody(daemon: Daemon) -> None:
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        printed, seconds = run_hook(daemon.home, start_event())
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
    assert printed == ""
    assert seconds < 3.5
    until(lambda: FACT in run_hook(daemon.home, start_event())[0])


@pytest.mark.parametrize(
    "given",
    ["", "{", "[]", "null", '{"hook_event_name": 7}', '{"hook_event_name": "SessionEnd"}'],
)
def test_strange_events_are_passed_over(empty_home: Home, given: str) -> None:
    assert run_hook(empty_home, given)[0] == ""


def test_a_home_in_disorder_is_passed_over(empty_home: Home, silent_port: int) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for running in ("", "{", "[]", '{"pid": 1}', '{"pid": "x", "url": "y"}'):
        empty_home.run_file.write_text(running)
        assert run_hook(empty_home, start_event())[0] == ""
    # Left by a process that was killed: another may have taken its port.
    announce(empty_home, silent_port, dead.pid)
    assert min(run_hook(empty_home, start_event())[1] for _ in range(2)) < 1.2
    empty_home.hook_token_file("general").unlink()
    announce(empty_home, silent_port)
    assert run_hook(empty_home, start_event())[0] == ""


def test_an_agent_that_says_nothing_is_not_waited_for(empty_home: Home) -> None:
    read, write = os.pipe()
    started = time.monotonic()
    command = [sys.executable, "-m", "butlers.hook", "general", "--home", str(empty_home.root)]
    try:
        assert subprocess.run(command, stdin=read, env=ENVIRONMENT, timeout=20).returncode == 0
    finally:
        os.close(read)
        os.close(write)
    assert time.monotonic() - started < 5


def test_an_agent_that_went_away_is_no_failure(daemon: Daemon) -> None:
    command = [sys.executable, "-m", "butlers.hook", "general", "--home", str(daemon.home.root)]
    read, write = os.pipe()
    os.close(read)
    event = json.dumps({"session_id": SESSION, **start_event()})
    done = subprocess.run(
        command, input=event, stdout=write, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_starts_at_once_and_imports_nothing_heavy(empty_home: Home) -> None:
    def seconds() -> float:
        # Of the processor's time: the machine may be busy with other tests.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_hook(empty_home, start_event())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.3
    assert own(modules("butlers.hook")) == {"butlers", "butlers.hook", "butlers.hook_request"}
    light = {"butlers", "butlers.hook", "butlers.hook_request", "butlers.clock", "butlers.sessions"}
    session = {"butlers.sessions.spool", "butlers.sessions.projects"}
    assert own(modules("butlers.hook", *session)) == light | session
    call = {"agent_calls", "tool_digest", "command_names", "error_signature"}
    imported = modules("butlers.hook", "butlers.sessions.agent_calls,butlers.sessions.tool_digest")
    assert own(imported) == light - {"butlers.clock"} | {
        f"butlers.sessions.{name}" for name in call
    }
    heavy = {"asyncio", "pydantic", "structlog", "mcp", "http.client", "subprocess", "pathlib"}
    assert not heavy & (imported | modules("butlers.hook", *session))


def modules(*imported: str) -> set[str]:
    """The modules that are loaded after some were imported."""
    code = f"import sys, {', '.join(imported)}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return set(loaded.stdout.split())


def own(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("butlers")}


def test_a_directory_cannot_smuggle_modules_into_the_hook(empty_home: Home, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("print('smuggled')")
    assert run_hook(empty_home, start_event(), cwd=tmp_path)[0] == ""


# What it calls


@pytest.mark.contract("N9.3")
def test_only_a_token_of_the_butler_opens_its_hooks(daemon: Daemon) -> None:
    _, foreign = TokenStore(daemon.home.tokens_file).create("kitchen", "default")
    url = f"{daemon.url}/butlers/general/hooks/SessionStart"
    with httpx2.Client(trust_env=False, timeout=30) as client:
        for given in ("", "Bearer btl_wrong", f"Bearer {foreign}", "Basic Zm9vOmJhcg=="):
            headers = {"Authorization": given} if given else {}
            answer = client.post(url, json={"session_id": "x"}, headers=headers)
            assert answer.status_code == 401
            assert FACT not in answer.text
        host = client.post(url, json={"session_id": "x"}, headers={"Host": "evil.example"})
        assert host.status_code == 400


def test_a_tenant_hears_only_of_itself(daemon: Daemon) -> None:
    _, token = TokenStore(daemon.home.tokens_file).create("general", "rival")
    url = f"{daemon.url}/butlers/general/hooks/SessionStart"
    with httpx2.Client(trust_env=False, timeout=30) as client:
        headers = {"Authorization": f"Bearer {token}"}
        answer = client.post(url, json={"session_id": "x"}, headers=headers)
    assert answer.json() == {"context": ""}


@pytest.mark.parametrize(
    "told",
    [{}, [], {"session_id": ""}, {"session_id": "../x"}, {"session_id": 7}, {"session_id": "x"}],
    ids=str,
)
def test_what_no_agent_sends_is_refused_without_quoting_it(
    client: httpx2.Client, told: object
) -> None:
    answer = client.post("SessionEnd", json=told)
    assert answer.status_code == 400
    assert answer.json() == {"error": "this is not what an agent's hook sends"}


def test_a_path_is_never_read(client: httpx2.Client) -> None:
    told = {"session_id": "x", "transcript_path": "/etc/passwd", "transcript": ""}
    assert client.post("SessionEnd", json=told).json() == {"episode_id": None}


def test_too_much_is_refused(client: httpx2.Client) -> None:
    body = b'{"session_id": "x", "transcript": "' + b"x" * MAX_BODY_BYTES + b'"}'
    assert client.post("SessionEnd", content=body).status_code == 413
    assert client.get("SessionEnd").status_code == 405


async def test_a_memory_that_fails_is_not_hidden_from_whoever_sent_a_session(
    empty_home: Home,
) -> None:
    class Served:
        name, session_log, limiter = "general", None, ConcurrencyLimiter()
        home = empty_home

        def session_memory(self, seconds: float) -> SessionMemory:
            return SessionMemory("general", self.down, seconds)

        def tool_memory(self, seconds: float) -> ToolMemory:
            return ToolMemory("general", self.down, seconds)

        async def down(self) -> Memory:
            raise Unavailable("the database does not answer")

    served: Any = {"general": Served()}
    app = Starlette(routes=hook_routes(served, TokenStore(empty_home.tokens_file)))
    token = empty_home.hook_token_file("general").read_text().strip()
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app),
        base_url="http://here/butlers/general/hooks/",
        headers={"Authorization": f"Bearer {token}"},
    ) as client:
        for event in ("SessionStart", "SessionEnd"):
            answer = await client.post(event, json={"session_id": "x", "transcript": "{}"})
            assert answer.status_code == 503
            assert answer.json()["error"].startswith("memory failed or took too long")


# Its token


def test_the_token_is_private_and_made_once(empty_home: Home) -> None:
    file = empty_home.hook_token_file("general")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert ensure_hook_token(empty_home, "general", "default") is False
    store = TokenStore(empty_home.tokens_file)
    (record,) = store.all()
    assert (record.butler, record.tenant) == ("general", "default")
    store.revoke(record.id)
    assert ensure_hook_token(empty_home, "general", "default") is True
    assert ensure_hook_token(empty_home, "general", "acme") is True
