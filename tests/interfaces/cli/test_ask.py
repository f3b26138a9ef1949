"""`butlers ask`: it answers with what it remembers, and answers even if it remembers nothing."""

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.host.home import Home
from interfaces.daemons import butlers
from interfaces.furnished import furnished_home

SCRIPT = """#!/bin/sh
cat "$1" > "$(dirname "$0")/system"
prompt=$(cat)
case "$prompt" in *fail*) echo "out of order" >&2; exit 3;; esac
echo "You asked: $prompt The saddle is in the attic."
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with furnished_home("general") as home:
        home.create_butler("general")
        home.create_butler("mute")
        home.create_butler("lost")
        yield home


@pytest.fixture(scope="module")
def model(home: Home) -> Path:
    """A runtime that keeps what it was told beside itself."""
    program = home.root / "model.sh"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    for name in ("general", "lost"):
        configure(home, name, "")
    return program


def configure(home: Home, name: str, more: str) -> None:
    command = json.dumps([str(home.root / "model.sh"), "{system_file}"])
    file = home.butler_file(name)
    file.write_text(
        f'[butler]\nname = "{name}"\n[runtime]\nkind = "command"\ncommand = {command}\n{more}'
    )


def ask(home: Home, *arguments: str, **how: str) -> subprocess.CompletedProcess[str]:
    return butlers("ask", *arguments, "--home", home.root, **how)


def episodes(home: Home) -> list[str]:
    async def found() -> list[str]:
        with EmbeddedPostgres(home.database_directory) as server:
            database = await asyncpg.connect(server.dsn("butler_general"))
            try:
                rows = await database.fetch("select content from episodes order by created_at")
            finally:
                await database.close()
        return [row["content"] for row in rows]

    return asyncio.run(found())


@pytest.mark.contract("P1", "P2", "N4.2")
def test_a_butler_remembers_what_it_was_asked(home: Home, model: Path) -> None:
    (home.butler_directory("general") / "CLAUDE.md").write_text("Be brief.")
    told = ask(home, "general", "Where did we put the saddle?")
    assert told.returncode == 0, told.stderr
    assert told.stdout == "You asked: Where did we put the saddle? The saddle is in the attic.\n"
    assert ask(home, "general", "-", input="And the pump?").returncode == 0
    system = model.with_name("system").read_text()
    assert system.startswith("Be brief.\n\n# Memory Context\n")
    assert "Request: Where did we put the saddle? Outcome: You asked" in system
    assert len(episodes(home)) == 2
    assert butlers("cost", "--home", home.root, "--json").returncode == 0


@pytest.mark.contract("P1")
def test_a_session_that_fails_says_why_and_is_not_remembered(home: Home, model: Path) -> None:
    before = episodes(home)
    told = ask(home, "general", "please fail")
    assert told.returncode == 1
    assert "exit code 3: out of order" in told.stderr
    assert "Traceback" not in told.stderr
    assert episodes(home) == before


def test_without_a_runtime_one_is_told_how_to_get_one(home: Home) -> None:
    told = ask(home, "mute", "Hello?")
    assert told.returncode == 1
    assert 'set runtime.kind in its butler.toml to "claude"' in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.contract("R24.1", "R24.2", "N4.4")
def test_a_butler_whose_database_is_gone_answers(home: Home, model: Path) -> None:
    configure(home, "lost", '[database]\nurl = "postgresql://nobody@127.0.0.1:9/none"\n')
    told = ask(home, "lost", "Still there?")
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("You asked: Still there?")
    assert "memory failed; the session goes on" in told.stderr
    assert "memory was unavailable, so it answered without it" in told.stderr
    assert "Still there" not in told.stderr


@pytest.mark.slow
@pytest.mark.contract("R24.1", "R24.2", "N4.4")
def test_a_butler_whose_database_hangs_answers_soon(home: Home, model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none"
        configure(home, "lost", f'[database]\nurl = "{url}"\n')
        started = time.monotonic()
        told = ask(home, "lost", "Still there?")
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("You asked: Still there?")
    assert "memory was unavailable, so it answered without it" in told.stderr
    assert time.monotonic() - started < 40


def test_nothing_and_nobody_cannot_be_asked(home: Home) -> None:
    assert "there is no butler 'ghost'" in ask(home, "ghost", "Hello?").stderr
    assert "prompt: found nothing" in ask(home, "general", "  ").stderr
