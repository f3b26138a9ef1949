"""Run the commands of the guide in order, as they are written."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interfaces.daemons import ENVIRONMENT, temporary_home
from llm.command_lines import PACKAGES, NotInstallable, command_lines
from llm.standins import Anthropic, Say, standing_in

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "guide.md").read_text()
BLOCKS = re.findall(r"^```sh ?(\w*)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
KINDS = {"", "install", "background", "agents"}

FIRST = "I put graphite on its stoker crank."
ANSWERS = (FIRST, "We silenced it with graphite.", "The tandem waits to be collected.")

# Inserted between the commands: wait for what a person would not notice to be slow.
PREAMBLE = """
set -eu
waited_for() {
  for _ in $(seq 300); do
    if echo '{"hook_event_name": "SessionStart", "session_id": "waiting", "cwd": "'$PWD'"}' \\
      | butlers-hook general | grep -q "$1"; then return 0; fi
    sleep 0.1
  done
  echo "waited in vain for: $1"; exit 1
}
trap 'kill $! 2>/dev/null || true; wait' EXIT
"""
UP = "until [ -s ~/.butlers/run.json ]; do kill -0 $!; sleep 0.1; done\n"


def test_every_command_is_in_a_block_that_is_run() -> None:
    assert len(BLOCKS) == GUIDE.count("```") // 2 >= 10
    assert {kind for kind, _ in BLOCKS} == KINDS


def test_it_is_installed_with_targets_that_exist() -> None:
    (commands,) = [text for kind, text in BLOCKS if kind == "install"]
    for command in commands.splitlines():
        made = subprocess.run(
            [*shlex.split(command), "--dry-run"], cwd=ROOT, capture_output=True, check=False
        )
        assert made.returncode == 0, made.stderr


def test_the_agents_it_names_are_those_it_was_tried_with() -> None:
    (command,) = [text for kind, text in BLOCKS if kind == "agents"]
    assert set(shlex.split(command)[3:]) == set(PACKAGES)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Install the commands of the product and of the agents in one directory."""
    try:
        agents = command_lines()
    except NotInstallable as reason:
        pytest.skip(str(reason))
    directory = tmp_path / "checkout" / ".venv" / "bin"
    directory.mkdir(parents=True)
    (directory / "claude").symlink_to(agents / "claude")
    for name, module in (("butlers", "butlers"), ("butlers-hook", "butlers.hook")):
        program = directory / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m {module} "$@"\n')
        program.chmod(0o755)
    return directory


@pytest.fixture
def user() -> Iterator[Path]:
    """Make a user with an empty home directory."""
    with temporary_home() as home:
        directory = home.root.parent
        home.root.rename(directory / ".butlers")
        (directory / ".butlers" / "butlers.toml").write_text("[server]\nport = 0\n")
        yield directory
        (directory / ".butlers").rename(home.root)


def script() -> str:
    parts = [PREAMBLE]
    for kind, text in BLOCKS:
        if kind == "background":
            parts += [f"{text.strip()} > ~/up.log 2>&1 &\n", UP]
        elif kind == "":
            parts.append(text)
        if "butlers connect claude-code" in text:
            parts.append("waited_for tandem\n")
        if "claude -p" in text:
            parts.append("waited_for graphite\n")
    return "".join(parts)


@pytest.mark.slow
@pytest.mark.contract("P1", "P2", "N4.2")
def test_an_agent_remembers_yesterday(programs: Path, user: Path) -> None:
    api = Anthropic([Say(answer) for answer in ANSWERS])
    with standing_in(api) as address:
        environment = ENVIRONMENT | {
            "HOME": str(user),
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "sk-test-0123456789",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        done = subprocess.run(
            ["bash", "-c", script()],
            cwd=programs.parent.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    yesterday, today, asked = map(str, api.requests)
    assert "owns the green tandem in bay seven" in yesterday
    assert "graphite" not in yesterday
    assert FIRST in today
    assert "You look after a bicycle shop." in asked
    assert "owns the green tandem in bay seven" in asked
    for answer in ANSWERS:
        assert answer in done.stdout
    left = {path.name for path in (user / "bicycle-shop").iterdir()}
    assert left == set()
