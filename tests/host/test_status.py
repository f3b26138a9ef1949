"""Who serves a home: known by the lock alone, so that no other process is ever stopped for it."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from butlers.errors import Conflict, Unavailable
from butlers.host import status
from butlers.host.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that has nothing to do with the home."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def served_as(home: Home, pid: int) -> None:
    home.lock_file.write_text(f"{pid}\n")


def test_a_home_nobody_serves(home: Home) -> None:
    assert not status.is_up(home)
    assert status.process_of(home) is None
    assert status.running(home) is None


def test_a_home_is_up_while_its_lock_is_held_and_says_where_once_it_is_ready(home: Home) -> None:
    here = status.Running("http://127.0.0.1:1", os.getpid(), {}, "1", "2026-01-01T00:00:00+00:00")
    with status.alone(home):
        assert status.is_up(home) and status.process_of(home) == os.getpid()
        assert status.running(home) is None
        with status.announced(home, here):
            assert status.running(home) == here
        assert status.running(home) is None
    assert not status.is_up(home)


def test_only_one_serves_a_home_and_is_still_known_after_another_tried(home: Home) -> None:
    with status.alone(home):
        with pytest.raises(Conflict, match="already running"), status.alone(home):
            pass
        assert status.process_of(home) == os.getpid()


def test_whoever_only_looks_does_not_keep_a_home_from_starting(home: Home) -> None:
    home.lock_file.touch()
    looking = (
        "import fcntl, sys, time\n"
        "lock = open(sys.argv[1]); fcntl.flock(lock, fcntl.LOCK_SH)\n"
        "print(flush=True); time.sleep(0.06)\n"
    )
    command = [sys.executable, "-c", looking, str(home.lock_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as looker:
        assert looker.stdout is not None and looker.stdout.readline()
        with status.alone(home):
            assert status.process_of(home) == os.getpid()


def test_a_file_left_by_a_process_that_was_killed_says_nothing(home: Home) -> None:
    served_as(home, os.getpid())
    home.run_file.write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": 1, "butlers": {}}))
    assert status.process_of(home) is None
    assert status.running(home) is None


def test_a_number_that_went_to_another_process_is_left_alone(
    home: Home, stranger: "subprocess.Popen[bytes]"
) -> None:
    served_as(home, stranger.pid)
    assert not status.ask_to_stop(home, stranger.pid)
    with status.alone(home):  # somebody serves the home, but it is not that process
        assert not status.ask_to_stop(home, stranger.pid)
    assert stranger.poll() is None


def test_the_process_that_holds_the_lock_is_asked_to_stop(
    home: Home, stranger: "subprocess.Popen[bytes]"
) -> None:
    served_as(home, stranger.pid)
    with home.lock_file.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert status.ask_to_stop(home, stranger.pid)
    assert stranger.wait(timeout=10) == -signal.SIGTERM


def test_a_process_that_is_gone_is_not_asked(
    home: Home, stranger: "subprocess.Popen[bytes]"
) -> None:
    stranger.kill()
    stranger.wait()
    assert not status.ask_to_stop(home, stranger.pid)


def test_a_home_that_is_just_being_locked_is_said_to_be_starting(home: Home) -> None:
    home.lock_file.touch()
    with home.lock_file.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="is starting"):
            status.process_of(home)


def test_a_process_of_the_first_version_is_known_by_its_run_file_alone(home: Home) -> None:
    home.lock_file.touch()
    home.run_file.write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": 7, "butlers": {}}))
    with home.lock_file.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert status.process_of(home) == 7
        found = status.running(home)
    assert found is not None and (found.version, found.started_at) == ("", "")


def test_a_long_number_left_in_the_lock_is_not_read_into_a_shorter_one(home: Home) -> None:
    served_as(home, 99999999999)
    with status.alone(home):
        assert home.lock_file.read_text() == f"{os.getpid()}\n"
