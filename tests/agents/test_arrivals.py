"""The real Claude Code and Codex while nothing is up: every session arrives once it is."""

import asyncio
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.agents import Agent, agent
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.sessions.spool_entries import SpoolEntries
from db.databases import connected as connected_to
from interfaces.daemons import until, up
from interfaces.forked import with_defaults
from interfaces.furnished import furnished_home
from llm.command_lines import NotInstallable, command_lines
from llm.standins import Say

pytestmark = pytest.mark.slow
NAMES = ("claude-code", "codex")
SESSIONS_EACH = 5
# A session counts as over as soon as its agent is gone.
AT_ONCE = with_defaults({"butlers.host.spool_worker:SpoolWorker.__init__": {"idle_minutes": 0}})


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with furnished_home("general") as home:
        home.create_butler("general")
        yield home


@pytest.fixture
def agents(home: Home, tmp_path: Path) -> Iterator[list[Agent]]:
    try:
        programs = command_lines()
    except NotInstallable as reason:
        pytest.skip(str(reason))
    with ExitStack() as stack:
        found = []
        for name in NAMES:
            (tmp_path / name).mkdir()
            one = stack.enter_context(agent(name, programs, tmp_path / name))
            one.connect(home)
            found.append(one)
        yield found


def contents(home: Home) -> list[str]:
    async def found() -> list[str]:
        async with connected_to(DatabaseServer(home).running_url("general")) as database:
            rows = await database.fetch(
                "select content from episodes where piece is null order by created_at, id"
            )
            return [row["content"] for row in rows]

    return asyncio.run(found())


def are_stored(home: Home) -> bool:
    return SpoolEntries(home.root).arrivals() == []


@pytest.mark.contract("P1", "N4.2")
def test_ten_sessions_of_the_real_agents_with_nothing_up_are_ten_episodes(
    home: Home, agents: list[Agent]
) -> None:
    asked = []
    for one in agents:
        for number in range(SESSIONS_EACH):
            asked.append(f"Pump tyre number {number} for {one.name}.")
            one.api.steps = [Say(f"Pumped {number}.")]
            assert one.ask(asked[-1]) == f"Pumped {number}."
    arrivals = SpoolEntries(home.root).arrivals()
    assert Counter(one.told["event"] for one in arrivals) == {"SessionEnd": len(asked)}
    assert all(one.held for one in arrivals)
    with up(home, environment=AT_ONCE):
        until(lambda: are_stored(home))
        stored = contents(home)
    assert len(stored) == len(asked) == 2 * SESSIONS_EACH
    for prompt in asked:
        assert sum(prompt in text for text in stored) == 1


def test_an_agent_that_was_killed_and_one_that_runs_no_hooks_lose_nothing(
    home: Home, agents: list[Agent], tmp_path: Path
) -> None:
    for one in agents:
        one.api.steps = [Say("Mended.")]
        _kill_after_its_answer(one, f"Mend the saddle, {one.name}.", home, tmp_path / one.name)
        os.unlink(next(_transcripts(one)))  # and its transcript is gone as well
    codex = agents[1]
    codex.api.steps = [Say("Waxed.")]
    untrusted = [word for word in codex.command if "hook-trust" not in word]
    subprocess.run(
        [*untrusted, "Wax the chain."],
        cwd=codex.project,
        env=codex.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    asked = [*(f"Mend the saddle, {one.name}." for one in agents), "Wax the chain."]
    assert {one.told["event"] for one in SpoolEntries(home.root).arrivals()} == {"Stop"}
    for _ in range(2):  # what was stored is not found again by the next start
        with up(home, environment=AT_ONCE):
            until(lambda: sum("Wax the chain." in text for text in contents(home)) > 0)
            until(lambda: are_stored(home))
            stored = contents(home)
        for prompt in asked:
            assert sum(prompt in text for text in stored) == 1, prompt


def _kill_after_its_answer(one: Agent, prompt: str, home: Home, directory: Path) -> None:
    """Kill an agent, and all it started, when it has answered and before it can say goodbye."""
    file = one.user / (
        ".claude/settings.json" if one.name == "claude-code" else ".codex/hooks.json"
    )
    settings = json.loads(file.read_text())
    lingering = {
        "type": "command",
        "command": f"touch {directory}/answered; sleep 30",
        "timeout": 40,
    }
    settings["hooks"]["Stop"].append({"hooks": [lingering]})
    file.write_text(json.dumps(settings))
    process = subprocess.Popen(
        [*one.command, prompt],
        cwd=one.project,
        env=one.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: (directory / "answered").exists() and _rests(home, one), 60)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)


def _rests(home: Home, one: Agent) -> bool:
    """Whether the hook has seen that the agent answered."""
    told = [arrival.told for arrival in SpoolEntries(home.root).arrivals()]
    return any(t["event"] == "Stop" and t["cwd"] == str(one.project) for t in told)


def _transcripts(one: Agent) -> Iterator[Path]:
    yield from one.user.glob(".claude/projects/*/*.jsonl")
    yield from one.user.glob(".codex/sessions/*/*/*/*.jsonl")
