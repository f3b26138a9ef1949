"""`butlers store batch` as a person types it."""

import json
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from butlers.host.home import Home
from butlers.memory.operations.batch import MOST
from interfaces.daemons import Daemon, butlers, up
from interfaces.furnished import furnished_home

TEA = {"memory_type": "fact", "subject": "Ann", "predicate": "drinks", "content": "tea"}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """A daemon beside the commands, so that each does not start a database of its own."""
    with furnished_home("general") as home:
        home.create_butler("general")
        with up(home) as daemon:
            yield daemon


@pytest.fixture
def home(daemon: Daemon) -> Home:
    return daemon.home


def written(file: Path, *lines: object) -> Path:
    file.write_text(
        "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines)
    )
    return file


def stored(home: Home, file: object, *options: object, **how: object):
    return butlers("memory", "store-batch", file, *options, "--home", home.root, **how)


def test_a_file_is_stored(home: Home, tmp_path: Path) -> None:
    coffee = {**TEA, "content": "coffee"}
    file = written(tmp_path / "some.jsonl", TEA, {"memory_type": "rule", "content": "Ask"}, coffee)
    told = stored(home, file, "--tenant", "file", "--json")
    assert (told.returncode, told.stderr) == (0, "")
    answer = json.loads(told.stdout)
    assert (answer["stored"], answer["failed"]) == (3, 0)
    first, rule, last = answer["results"]
    assert [one["line"] for one in answer["results"]] == [1, 2, 3]
    assert (rule["memory_type"], last["superseded_id"]) == ("rule", first["id"])
    found = butlers("memory", "look-up", "Ann", "drinks", "--tenant", "file", "--json",
                    "--home", home.root)  # fmt: skip
    assert json.loads(found.stdout)["id"] == last["id"]


def test_what_is_wrong_with_a_line_is_told_by_its_number(home: Home) -> None:
    lines = [json.dumps(TEA), "", "{broken", json.dumps({"memory_type": "rule", "content": " "})]
    told = stored(home, "-", input="\n".join(lines))
    assert (told.returncode, told.stdout) == (1, "stored 1 of 3\n")
    broken, empty = told.stderr.splitlines()
    assert broken == ("butlers: line 3: found '{broken'; valid is a JSON object with memory_type")
    assert empty.startswith("butlers: line 4: content: found an empty text")
    answer = json.loads(stored(home, "-", "--json", input=lines[2]).stdout)
    assert (answer["stored"], answer["failed"], answer["results"][0]["line"]) == (0, 1, 1)


def test_a_file_longer_than_a_batch_is_sent_in_several(home: Home, tmp_path: Path) -> None:
    # What is not fit to be stored costs no embedding.
    bad = {"memory_type": "rule", "content": ""}
    file = written(tmp_path / "long.jsonl", *[bad] * MOST, TEA, "x")
    told = stored(home, file, "--tenant", "long")
    assert (told.returncode, told.stdout) == (1, f"stored 1 of {MOST + 2}\n")
    assert len(told.stderr.splitlines()) == MOST + 1
    assert told.stderr.splitlines()[-1].startswith(f"butlers: line {MOST + 2}: found 'x'")


def test_a_file_that_is_not_there_is_refused_and_an_empty_one_stores_nothing(
    home: Home, tmp_path: Path
) -> None:
    told = stored(home, tmp_path / "none.jsonl")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == f"butlers: {tmp_path}/none.jsonl: No such file or directory\n"
    told = stored(home, "-", input="\n\n")
    assert (told.returncode, told.stdout, told.stderr) == (0, "stored 0 of 0\n", "")


def test_a_terminal_is_shown_how_far_it_is(home: Home, tmp_path: Path) -> None:
    file = written(tmp_path / "some.jsonl", TEA, TEA)
    ours, theirs = pty.openpty()
    told = stored(home, file, "--tenant", "shown", stderr=theirs, stdout=None, capture_output=False)
    os.close(theirs)
    assert told.returncode == 0
    assert b"2 lines" in os.read(ours, 65_536)
    os.close(ours)
