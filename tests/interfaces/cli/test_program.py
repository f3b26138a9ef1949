"""What `butlers up` prints can be typed as it stands, however it was started."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from butlers.host.home import Home
from butlers.interfaces.cli.homes import shell_command
from interfaces.daemons import Daemon, operating, temporary_home, until

SCRIPT = "import sys\nfrom butlers.entry import main\nmain()\n"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with temporary_home() as home:
        home.create_butler("kitchen")
        yield home


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the program where `make install` puts it."""
    program = tmp_path / "a check-out" / ".venv" / "bin" / "butlers"
    program.parent.mkdir(parents=True)
    # The interpreter's path may be too long, or hold a space, for a line that names it.
    program.write_text(f"#!/bin/sh\n''':'\nexec {shlex.quote(sys.executable)} \"$0\" \"$@\"\n'''\n")
    with program.open("a") as file:
        file.write(SCRIPT)
    program.chmod(0o755)
    return tmp_path / "a check-out"


def printed_commands(text: str) -> list[str]:
    """The indented lines that call this program."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    return [line for line in lines if "butlers" in line and " --home " in line]


def test_each_printed_command_runs_in_any_directory(
    home: Home, checkout: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    ran: set[str] = set()
    for start in (["./.venv/bin/butlers"], [sys.executable, "-m", "butlers"]):
        daemon = Daemon(home, program=start, cwd=checkout)
        try:
            daemon.ready()
            until(lambda daemon=daemon: "connect" in daemon.stdout)  # type: ignore[misc]
            for command in printed_commands(daemon.stdout):
                done = subprocess.run(
                    ["sh", "-c", command],
                    cwd=project,
                    env=operating(home, "kitchen") | {"HOME": str(tmp_path)},
                    input="y\n",
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                assert done.returncode == 0, (command, done.stdout, done.stderr)
                ran |= {word for word in ("open", "token", "connect") if f" {word} " in command}
        finally:
            daemon.stop()
    assert ran == {"open", "token", "connect"}
    assert "butlers-kitchen" in (tmp_path / ".claude.json").read_text()


def typed_by(program: Path, monkeypatch: pytest.MonkeyPatch, home: Home) -> str:
    monkeypatch.setattr(sys, "argv", [str(program)])
    return shell_command(home, "open")


def test_a_program_on_the_path_is_called_by_its_name(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = checkout / ".venv" / "bin" / "butlers"
    home = Home(tmp_path / "my home")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert typed_by(program, monkeypatch, home) == f"'{program}' open --home '{home.root}'"
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    assert typed_by(program, monkeypatch, home) == f"butlers open --home '{home.root}'"
    assert typed_by(program, monkeypatch, Home(tmp_path / ".butlers")) == "butlers open"


def test_another_program_of_that_name_is_not_meant(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "bin" / "butlers"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(checkout)
    typed_so = typed_by(Path(".venv/bin/butlers"), monkeypatch, Home(tmp_path / ".butlers"))
    assert shlex.split(typed_so) == [str(checkout / ".venv/bin/butlers"), "open"]
