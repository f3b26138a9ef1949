"""Sessions through a real daemon: asked, cut short, killed, two at once, and all on record."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, until, up
from interfaces.furnished import furnished_home

FACT = "the green tandem in bay seven belongs to Mrs. Okonkwo"
PROMPT = "Whose is the green tandem? The till password is hunter2secret."

# Speaks as Claude Code does, and does what the prompt says. What it is given it leaves in files.
MODEL = """#!{python} -I
import json, os, pathlib, sys, time
place, prompt, flags = pathlib.Path(__file__).parent, sys.stdin.read(), sys.argv
given = dict(zip(flags, flags[1:]))
(place / "system").write_text(pathlib.Path(given["--system-prompt-file"]).read_text())
if "--mcp-config" in given:
    servers = json.loads(pathlib.Path(given["--mcp-config"]).read_text())
    url = servers["mcpServers"]["butlers"]["url"]
    token = os.environ["BUTLERS_SESSION_TOKEN"]
    (place / "tools.new").write_text(json.dumps({{"url": url, "token": token}}))
    (place / "tools.new").rename(place / "tools")
if "wait" in prompt:
    (place / "waiting").touch()
    while not (place / "go").exists():
        time.sleep(0.02)
failed = "fail" in prompt
usage = {{"input_tokens": 7, "output_tokens": 5}}
print(json.dumps({{"is_error": failed, "result": "out of order" if failed else "Hers: " + prompt,
  "usage": usage, "total_cost_usd": 0.25, "modelUsage": {{"small-1": {{"outputTokens": 5}}}}}}))
"""


class House:
    """A home with two butlers whose model is a few lines of Python."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.program = home.root / "model"
        self.program.write_text(MODEL.format(python=sys.executable))
        self.program.chmod(0o755)
        for name in ("general", "kitchen"):
            home.create_butler(name)
            self.configure(name)

    def configure(self, name: str, more: str = "") -> None:
        runtime = f'[runtime]\nkind = "claude"\ncommand = ["{self.program}"]\n'
        self.home.butler_file(name).write_text(f'[butler]\nname = "{name}"\n{runtime}{more}')

    def ask(self, prompt: str = PROMPT, **how: Any) -> subprocess.CompletedProcess[str]:
        return butlers("ask", "general", prompt, "--home", self.home.root, **how)

    def asking(self, prompt: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "butlers", "ask", "general", prompt]
        return subprocess.Popen(
            [*command, "--home", str(self.home.root)],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def waiting(self, prompt: str = "wait for it") -> Iterator[subprocess.Popen[str]]:
        """A session under way, whose model does not answer before it is told to."""
        self.forget("waiting", "go", "tools")
        asked = self.asking(prompt)
        until((self.home.root / "waiting").exists)
        try:
            yield asked
        finally:
            self.answer()
            asked.communicate(timeout=60)

    def answer(self) -> None:
        (self.home.root / "go").touch()

    def forget(self, *names: str) -> None:
        for name in names:
            (self.home.root / name).unlink(missing_ok=True)

    @property
    def tools(self) -> dict[str, str]:
        return dict(json.loads((self.home.root / "tools").read_text()))

    def sessions(self, *arguments: object) -> list[dict[str, Any]]:
        told = butlers("sessions", "list", *arguments, "--json", "--home", self.home.root)
        assert told.returncode == 0, told.stderr
        return list(json.loads(told.stdout))


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with furnished_home("general", "kitchen") as home:
        yield House(home)


@pytest.fixture(scope="module")
def daemon(house: House) -> Iterator[Daemon]:
    with up(house.home) as running:
        stored = butlers(
            "memory", "store-fact", "workshop", "tandem", FACT, "--home", house.home.root
        )
        assert stored.returncode == 0, stored.stderr
        yield running


def tool_names(url: str, token: str) -> list[str]:
    """The tools that a token is shown at an address; an empty list where it is refused."""

    async def listed() -> list[str]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=20) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return [tool.name for tool in (await client.list_tools()).tools]

    if status(url, token) == 401:
        return []
    return asyncio.run(listed())


def status(url: str, token: str) -> int:
    with httpx2.Client(trust_env=False, timeout=20) as client:
        return client.post(url, json={}, headers={"Authorization": f"Bearer {token}"}).status_code


def test_a_session_runs_where_the_memory_is_warm_and_is_on_record(
    house: House, daemon: Daemon
) -> None:
    told = house.ask(cwd=house.home.root)
    assert (told.returncode, told.stderr) == (0, "")
    # What looks like a secret reaches no model.
    assert told.stdout == f"Hers: {PROMPT}\n".replace("hunter2secret", "[secret: password]")
    system = (house.home.root / "system").read_text()
    assert FACT in system and "memory_recall" in system
    session, *_ = house.sessions()
    assert session["kind"] == "ask" and session["asked_by"].startswith("token:")
    assert (session["agent"], session["model"], session["project"]) == ("claude", "small-1", "home")
    assert (session["input_tokens"], session["output_tokens"], session["cost_usd"]) == (7, 5, 0.25)
    assert (session["outcome"], session["reason"]) == ("ok", None)
    assert session["had_memory"] and session["had_tools"]
    assert session["asked"].startswith("Whose is the green tandem?")
    assert "hunter2secret" not in json.dumps(session)
    assert len(session["told"]) == 1 and len(session["stored"]) == 1
    shown = butlers("sessions", "show", session["id"][:8], "--home", house.home.root)
    assert session["told"][0] in shown.stdout and "cost usd" in shown.stdout
    (episode,) = session["stored"]
    got = butlers("memory", "get", episode, "--home", house.home.root)
    assert "Request: Whose is the green tandem?" in got.stdout


def test_the_tools_of_a_session_are_its_butlers_and_end_with_it(
    house: House, daemon: Daemon
) -> None:
    with house.waiting():
        url, token = house.tools["url"], house.tools["token"]
        assert url == daemon.mcp()
        assert "memory_store_fact" in tool_names(url, token)
        # Not those of another butler, and no other door.
        assert tool_names(daemon.mcp("kitchen"), token) == []
        for path in ("general/ask", "general/memory/overview"):
            assert status(f"{daemon.url}/api/butlers/{path}", token) in (401, 405)
        assert status(f"{daemon.url}/api/butlers/general/ask", token) == 401
        assert status(f"{daemon.url}/butlers/general/hooks/SessionStart", token) == 401
        assert token not in house.home.tokens_file.read_text()
        house.answer()
        until(lambda: status(url, token) == 401)
    assert token not in daemon.log


def test_two_who_ask_at_once_have_sessions_of_their_own(house: House, daemon: Daemon) -> None:
    before = len(house.sessions("-n", 200))
    asked = [house.asking(f"Question {number}?") for number in range(4)]
    answers = [one.communicate(timeout=60) for one in asked]
    assert [out for out, _ in answers] == [f"Hers: Question {n}?\n" for n in range(4)]
    assert [err for _, err in answers] == [""] * 4
    new = house.sessions("-n", 200)[:-before]
    assert len({one["id"] for one in new}) == 4
    assert {one["outcome"] for one in new} == {"ok"}
    assert len({one["stored"][0] for one in new}) == 4


def test_whoever_stops_asking_ends_the_session(house: House, daemon: Daemon) -> None:
    with house.waiting() as asked:
        token = house.tools["token"]
        asked.send_signal(signal.SIGINT)
        until(lambda: house.sessions()[0]["outcome"] == "interrupted")
        assert tool_names(daemon.mcp(), token) == []
    session, *_ = house.sessions()
    assert session["reason"] == "stopped before it was answered"
    assert session["stored"] == []


def test_a_session_that_fails_says_why_and_is_on_record(house: House, daemon: Daemon) -> None:
    told = house.ask("please fail")
    assert told.returncode == 1
    assert told.stderr == "butlers: claude failed: out of order\n"
    session, *_ = house.sessions()
    assert (session["outcome"], session["reason"]) == ("failed", "claude failed: out of order")
    assert session["cost_usd"] == 0.25


@pytest.mark.contract("L1")
def test_only_the_butlers_own_tenant_asks_and_each_sees_its_own_sessions(
    house: House, daemon: Daemon
) -> None:
    _, rival = TokenStore(house.home.tokens_file).create("general", "rival")
    store = TokenStore(house.home.tokens_file)
    _, friend = store.create("general", "default", rights=Right.OPERATE)
    ours = house.sessions()[0]["id"]
    with httpx2.Client(trust_env=False, timeout=60, base_url=daemon.url) as client:

        def called(method: str, path: str, token: str, **how: Any) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return client.request(method, f"/api/butlers/general/{path}", headers=headers, **how)

        refused = called("POST", "ask", rival, json={"prompt": "Whose?"})
        assert refused.status_code == 403
        assert "only its own tenant may ask" in refused.json()["error"]["message"]
        assert called("GET", "sessions", rival).json() == {"sessions": []}
        assert called("GET", f"sessions/{ours}", rival).status_code == 404
        assert called("GET", f"sessions/{ours}", friend).json()["id"] == ours
        assert called("POST", "ask", friend, json={"prompt": "  "}).status_code == 400
        answered = called("POST", "ask", friend, json={"prompt": "Whose?", "project": "shop\x00"})
        assert answered.json()["session"]["project"] == "shop"
        assert answered.json()["answer"] == "Hers: Whose?"
        newest = called("GET", "sessions", friend, params={"limit": 1}).json()["sessions"]
        assert [one["id"] for one in newest] == [answered.json()["session"]["id"]]


def test_what_runs_sessions_is_read_anew_each_time(house: House, daemon: Daemon) -> None:
    house.configure("general", 'model = "other-1"\n')
    assert house.ask().returncode == 0
    house.home.butler_file("general").write_text('[butler]\nname = "general"\n')
    assert "set runtime.kind in its butler.toml" in house.ask().stderr
    house.home.butler_file("general").write_text("[runtime]\nkind = 7\n")
    assert "runtime.kind: found 7" in house.ask().stderr
    house.configure("general")


def test_the_token_of_commands_is_a_private_file(house: House, daemon: Daemon) -> None:
    file = house.home.command_token_file("general")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    TokenStore(house.home.tokens_file).revoke(
        next(
            one.id
            for one in TokenStore(house.home.tokens_file).all()
            if one.note == "commands of this home"
        )
    )
    assert house.ask("Still?").returncode == 0


@pytest.mark.slow
def test_under_load_a_session_still_has_its_memory(house: House, daemon: Daemon) -> None:
    burn = [sys.executable, "-c", "while True: pass"]
    burning = [subprocess.Popen(burn) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        answers = [house.ask() for _ in range(4)]
    finally:
        for one in burning:
            one.kill()
            one.wait()
    assert [one.stderr for one in answers] == [""] * 4
    sessions = house.sessions()[:4]
    assert all(one["had_memory"] and one["told"] for one in sessions)


@pytest.mark.slow
def test_a_daemon_that_is_killed_leaves_a_session_that_was_interrupted() -> None:
    with furnished_home("general", "kitchen") as home:
        house = House(home)
        first = Daemon(home).ready()
        with house.waiting() as asked:
            token = house.tools["token"]
            first.kill()
            _, complaint = asked.communicate(timeout=60)
            assert asked.returncode == 1
            assert "the daemon stopped before it answered" in complaint
            assert house.sessions()[0]["outcome"] == "running"
        with up(home) as second:
            (session,) = house.sessions()
            assert session["outcome"] == "interrupted"
            assert session["reason"] == "the process that ran it ended before it was done"
            assert tool_names(second.mcp(), token) == []


@pytest.mark.slow
def test_a_daemon_that_stops_and_a_limit_that_is_reached_end_a_session() -> None:
    with furnished_home("general", "kitchen") as home:
        house = House(home)
        house.configure("general", "timeout_seconds = 2\n")
        with up(home) as daemon:
            started = time.monotonic()
            with house.waiting() as asked:
                _, complaint = asked.communicate(timeout=60)
            assert "did not answer within 2 s" in complaint
            assert time.monotonic() - started < 30
            assert house.sessions()[0]["outcome"] == "cut_off"
        house.configure("general")
        with up(home) as daemon, house.waiting() as asked:
            daemon.stop()
            asked.communicate(timeout=60)
            assert asked.returncode == 1
            newest, *_ = house.sessions()
            assert newest["outcome"] == "interrupted"
            assert newest["reason"] == "stopped before it was answered"


@pytest.mark.slow
def test_without_a_daemon_a_session_runs_by_itself_and_says_so() -> None:
    with furnished_home("general", "kitchen") as home:
        house = House(home)
        assert (
            butlers(
                "memory", "store-fact", "workshop", "tandem", FACT, "--home", home.root
            ).returncode
            == 0
        )
        told = house.ask()
        assert told.returncode == 0
        assert told.stderr.count("\n") == 1 and "has no tools" in told.stderr
        assert FACT in (home.root / "system").read_text()
        (session,) = house.sessions()
        assert (session["asked_by"], session["had_tools"]) == ("cli", False)
        assert session["had_memory"] and session["outcome"] == "ok"
