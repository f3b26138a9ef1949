"""The log of a home, read by a person and by a script, to the end and as it grows."""

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import pytest

from butlers.host.home import Home
from interfaces.daemons import ENVIRONMENT, butlers, until


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.logs_directory.mkdir()
    return home


def line(event: str, **more: Any) -> str:
    told = {"event": event, "level": "info", "logger": "x", "timestamp": "2026-11-15T16:33:10.5Z"}
    return json.dumps(told | more) + "\n"


def shown(home: Home, *arguments: object) -> list[str]:
    told = butlers("logs", "--home", home.root, *arguments)
    assert told.returncode == 0, told.stderr
    return told.stdout.splitlines()


def test_a_line_says_when_how_grave_whose_and_what(home: Home) -> None:
    home.log_file.write_text(line("job failed", level="error", butler="kitchen", job="sweep"))
    assert shown(home) == ["2026-11-15 16:33:10 error kitchen: job failed job=sweep"]


def test_where_it_failed_stands_below(home: Home) -> None:
    home.log_file.write_text(line("broke", exception="ValueError\n  a.py:1 in f"))
    assert shown(home)[1:] == ["    ValueError", "    a.py:1 in f"]


def test_the_last_lines_come_from_older_files_too(home: Home) -> None:
    for number in (2, 1):
        text = "".join(line(f"old {number} {place}") for place in range(3))
        home.log_file.with_name(f"butlers.log.{number}").write_text(text)
    home.log_file.write_text(line("new 0") + line("new 1"))
    events = [" ".join(one.split()[3:]) for one in shown(home, "-n", 6)]
    assert events == ["old 2 2", "old 1 0", "old 1 1", "old 1 2", "new 0", "new 1"]
    assert [one.split()[-1] for one in shown(home, "-n", 1)] == ["1"]
    assert shown(home, "-n", 0) == []
    assert len(shown(home)) == 8


def test_scripts_get_the_lines_as_they_are_kept(home: Home) -> None:
    home.log_file.write_text(line("one", butler="kitchen") + line("two"))
    assert "\n".join(shown(home, "--json")) + "\n" == home.log_file.read_text()


def test_text_that_would_steer_a_terminal_is_written_out(home: Home) -> None:
    home.log_file.write_text(line("evil \x1b[2J\u202e") + "not json \x1b[2J\n" + '["a list"]\n')
    text = "\n".join(shown(home))
    assert "\x1b" not in text and "\u202e" not in text
    assert "evil \\x1b[2J" in text and "not json" in text and "a list" in text


def test_without_a_log_it_is_said_what_would_write_one(tmp_path: Path) -> None:
    told = butlers("logs", "--home", tmp_path)
    assert told.returncode == 1
    assert "`butlers up` writes one" in told.stderr


def _heed_ctrl_c() -> None:
    """Tests that a shell runs in the background ignore it, and so would what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def following(home: Home, out: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "butlers", "logs", "-f", "-n", "1", "--home", str(home.root)]
    with out.open("wb") as stream:
        process = subprocess.Popen(
            command, env=ENVIRONMENT, stdout=stream, stderr=stream, preexec_fn=_heed_ctrl_c
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_it_is_followed_across_files_and_left_with_ctrl_c(home: Home, tmp_path: Path) -> None:
    home.log_file.write_text(line("before") + line("first"))
    out = tmp_path / "out"
    kept = RotatingFileHandler(home.log_file, maxBytes=400, backupCount=3)
    with following(home, out) as process:
        until(lambda: "first" in out.read_text())
        for number in range(12):
            message = line(f"event-{number}").strip()
            kept.emit(logging.makeLogRecord({"msg": message, "levelname": "INFO"}))
            until(lambda number=number: f"event-{number}\n" in out.read_text())  # type: ignore[misc]
        kept.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
    events = [one.split()[-1] for one in out.read_text().splitlines()]
    assert events == ["first", *(f"event-{number}" for number in range(12))]
    assert home.log_file.with_name("butlers.log.1").exists()
