"""Logs: one pipeline, JSON where no person looks, and nothing in it that should not be."""

import json
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from butlers.errors import Unavailable
from butlers.logs import configure
from interfaces.daemons import ENVIRONMENT

SPEAK = """
import logging, sys
from pathlib import Path
import structlog
from butlers.logs import configure
configure(sys.argv[1], log_file=Path(sys.argv[2]))
log = structlog.get_logger("house")
with structlog.contextvars.bound_contextvars(butler="general", tenant="acme", request_id="r-1"):
    log.info("tool call", token="btl_x", content="Ada likes tea", query="tea", milliseconds=3)
    logging.getLogger("library").warning("from %s", "a library")
log.debug("details", content="Ada likes tea")
logging.getLogger("mcp.server").info("said by a talkative library: Ada likes tea")
try:
    try:
        raise KeyError("Ada likes tea")
    except KeyError as cause:
        raise ValueError("DETAIL: Failing row contains (Ada likes tea)") from cause
except ValueError:
    log.exception("tool crashed")
    logging.getLogger("library").exception("library crashed")
"""


def speak(level: str, file: Path, **how: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SPEAK, level, str(file)]
    options = {"env": ENVIRONMENT, "capture_output": True, "text": True} | how
    return subprocess.run(command, check=True, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


def test_lines_are_json_and_carry_who_asked(tmp_path: Path) -> None:
    said = speak("info", tmp_path / "log").stderr
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line["event"] for line in lines] == [
        "tool call",
        "from a library",
        "tool crashed",
        "library crashed",
    ]
    for line in lines[:2]:
        assert (line["butler"], line["tenant"], line["request_id"]) == ("general", "acme", "r-1")
    assert lines[0]["milliseconds"] == 3
    assert lines[0]["timestamp"].endswith("Z")
    assert lines[1]["logger"] == "library"
    kept = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["event"] for line in kept] == [line["event"] for line in lines]


def test_neither_secrets_nor_memories_are_logged_at_the_default_level(tmp_path: Path) -> None:
    said = speak("info", tmp_path / "log").stderr
    assert "btl_x" not in said
    assert "Ada" not in said
    assert "tea" not in said


def test_a_crash_tells_its_kind_its_cause_and_its_place(tmp_path: Path) -> None:
    said = speak("info", tmp_path / "log").stderr
    for line in map(json.loads, said.splitlines()[2:]):
        assert line["exception"].splitlines() == [
            "KeyError",
            "  <string>:15 in <module>",
            "ValueError",
            "  <string>:17 in <module>",
        ]


def test_debugging_tells_more_but_never_a_secret(tmp_path: Path) -> None:
    said = speak("debug", tmp_path / "log").stderr
    assert "details" in said
    assert "Failing row contains" in said
    assert "btl_x" not in said


def test_a_terminal_shows_lines_for_people_while_the_file_stays_json(tmp_path: Path) -> None:
    parent, child = pty.openpty()
    try:
        speak("info", tmp_path / "log", capture_output=False, stdout=child, stderr=child)
        shown = os.read(parent, 65536).decode()
    finally:
        os.close(parent)
        os.close(child)
    assert "tool call" in shown
    assert not shown.lstrip().startswith("{")
    assert "Ada" not in shown
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["event"] == "tool call"


def test_the_file_is_private(tmp_path: Path) -> None:
    speak("info", tmp_path / "log")
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written_is_said_in_words(tmp_path: Path) -> None:
    root = logging.getLogger()
    kept = root.handlers[:]
    root.handlers[:] = []
    try:
        with pytest.raises(Unavailable, match="cannot write the log .*choose another home"):
            configure(log_file=tmp_path / "nowhere" / "log")
    finally:
        root.handlers[:] = kept
