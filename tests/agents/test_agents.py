"""The real Claude Code and Codex with a butler: they remember, and never suffer from it."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from agents.agents import Agent, agent
from butlers.host.database import DatabaseServer
from db.databases import connected as connected_to
from interfaces.daemons import Daemon, butlers, until, up
from interfaces.furnished import furnished_home
from llm.command_lines import NotInstallable, command_lines
from llm.standins import Call, Say, Step

pytestmark = pytest.mark.slow

FACT = "the green tandem in bay seven belongs to Mrs. Okonkwo"
# Of another butler's scope: no context holds it, only a tool that is asked for everything.
ASIDE = "the key to the paint store hangs behind the calendar"
PROMPT = "Which bicycles are ready for collection? The till password is hunter2secret."
DONE = {"claude-code": "I have oiled its chain.", "codex": "I have pumped both of its tyres."}

APPROVED = 'mcp_servers.butlers-general.default_tools_approval_mode="approve"'
ALLOWED = {
    "claude-code": ("--allowedTools", "mcp__butlers-general__memory_recall", "--"),
    "codex": ("-c", APPROVED),
}


@pytest.fixture(scope="module")
def programs() -> Path:
    try:
        return command_lines()
    except NotInstallable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with furnished_home("general") as home, up(home) as running:
        for fact in (("workshop", "tandem", FACT), ("paint", "key", ASIDE, "--scope", "attic")):
            stored = butlers("memory", "store-fact", *fact, "--home", home.root)
            assert stored.returncode == 0, stored.stderr
        _warm_up(running)
        yield running


def _warm_up(daemon: Daemon) -> None:
    """The first to ask waits for the model to be read, longer than a hook does."""
    headers = {"Authorization": f"Bearer {daemon.first_token}"}
    url = f"{daemon.url}/butlers/general/hooks/SessionStart"
    with httpx2.Client(trust_env=False, timeout=60, headers=headers) as client:
        until(lambda: FACT in client.post(url, json={"session_id": "warm-up"}).text)


@pytest.fixture(params=["claude-code", "codex"])
def connected(
    request: pytest.FixtureRequest, programs: Path, daemon: Daemon, tmp_path: Path
) -> Iterator[Agent]:
    with agent(request.param, programs, tmp_path) as one:
        one.connect(daemon.home)
        yield one


def episodes(daemon: Daemon) -> list[asyncpg.Record]:
    """Every episode there is, the newest first."""

    async def found() -> list[asyncpg.Record]:
        async with connected_to(DatabaseServer(daemon.home).running_url("general")) as database:
            return await database.fetch(
                "select * from episodes where piece is null order by created_at desc"
            )

    return asyncio.run(found())


@pytest.mark.contract("P1", "P2", "N4.2")
def test_a_session_knows_what_was_learned_and_is_remembered(
    connected: Agent, daemon: Daemon
) -> None:
    before = len(episodes(daemon))
    done = DONE[connected.name]
    connected.api.steps = [*_search(connected), Say(f"You know: {FACT}, and {ASIDE}. {done}")]
    assert connected.ask(PROMPT, *ALLOWED[connected.name]).endswith(done)
    assert FACT in connected.heard(0)
    assert "Remembered from earlier sessions" in connected.heard(0)
    assert ASIDE not in connected.heard(0)
    assert ASIDE in connected.heard(-1)
    until(lambda: len(episodes(daemon)) > before)
    new, *_ = episodes(daemon)
    assert len(episodes(daemon)) == before + 1
    assert "Request: Which bicycles are ready for collection?" in new["content"]
    assert new["content"].endswith(f"Outcome: [recalled] {done}")
    # Recalled text is not new knowledge, and a secret is none of memory's business.
    assert "Okonkwo" not in new["content"]
    assert "calendar" not in new["content"]
    assert "hunter2secret" not in new["content"]
    assert '"secrets_masked": 1' in daemon.log
    assert new["expires_at"] > new["created_at"]
    assert new["session_id"] is not None


def _search(one: Agent) -> list[Step]:
    """The model looks something up, once the server's tools are there."""
    if one.name == "claude-code":
        tool = "mcp__butlers-general__memory_recall"
        return [Call("ToolSearch", {"query": f"select:{tool}"}), Call(tool, {"topic": "paint key"})]
    search = 'tools.mcp__butlers_general__memory_recall({topic: "paint key"})'
    wait = "await new Promise(done => setTimeout(done, 1000)); text(1)"
    found = Call("exec", f"text(JSON.stringify(await {search}))")
    return [*(Call("exec", wait) for _ in range(8)), found]


@pytest.mark.contract("N4.4")
def test_an_agent_works_on_while_its_butler_is_hung(connected: Agent, daemon: Daemon) -> None:
    connected.api.steps = [Say("Two are ready.")]
    assert connected.ask(PROMPT) == "Two are ready."
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        assert connected.ask(PROMPT) == "Two are ready."
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
    assert FACT not in connected.heard()
    usually, hung = connected.seconds
    # Three hooks of at most two seconds, and what else the machine has to do.
    assert hung < usually + 8


@pytest.mark.contract("N4.4")
def test_an_agent_works_on_while_its_butler_is_gone(connected: Agent, daemon: Daemon) -> None:
    kept = daemon.home.run_file.read_text()
    daemon.home.run_file.unlink()
    connected.api.steps = [Say("Two are ready.")]
    try:
        assert connected.ask(PROMPT) == "Two are ready."
    finally:
        daemon.home.run_file.write_text(kept)
    assert FACT not in connected.heard()
