"""Everyday commands while the daemon is up: quick, and as the command itself would answer."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from butlers.host.home import Home
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, up
from interfaces.furnished import furnished_home
from interfaces.terminals import at_terminal

HEAVY = ("pydantic", "asyncpg", "onnxruntime", "typer", "structlog", "rich", "asyncio", "ssl")
CLIENT = """
import sys
from butlers.entry import main
sys.argv = ["butlers", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    print("LOADED", end.code, *sys.modules)
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with furnished_home("general") as home:
        home.create_butler("general")
        yield home


@pytest.fixture(scope="module")
def daemon(home: Home) -> Iterator[Daemon]:
    with up(home) as daemon:
        yield daemon


@pytest.fixture
def run(home: Home, daemon: Daemon):
    def run(*arguments: object, code: int = 0, **how: object) -> str:
        done = butlers(*arguments, "--home", home.root, **how)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    return run


@contextmanager
def socket_hidden(home: Home) -> Iterator[None]:
    """Within this block commands do not find the daemon, and open the butler themselves."""
    aside = home.mcp_socket.with_suffix(".aside")
    home.mcp_socket.rename(aside)
    try:
        yield
    finally:
        aside.rename(home.mcp_socket)


def stored(run, *arguments: object) -> str:
    return str(json.loads(run(*arguments, "--json"))["id"])


@pytest.mark.parametrize(
    "command",
    [("recall", "where is the office?"), ("memory", "list", "facts"), ("token", "list"),
     ("today",), ("jobs",), ("memory", "recall", "office")],
)  # fmt: skip
def test_a_command_loads_nothing_heavy_while_the_daemon_is_up(
    home: Home, daemon: Daemon, command: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, *command, "--home", str(home.root)],
        env=ENVIRONMENT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, *loaded = done.stdout.split("LOADED ")[1].split()
    assert code == "0", done.stderr
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_the_daemon_answers_as_the_command_itself(home: Home, run) -> None:
    run("remember", "The office moved to Graz")
    known = stored(run, "remember", "Ann is allergic to peanuts")
    commands = [
        ("why", known),
        ("memory", "list", "facts"),
        ("entity", "list"),
        ("forget", "000000ff"),
        ("store", "fact", "Ann"),
        ("conflicts", "--help"),
        ("token", "list"),
    ]
    quick = [butlers(*each, "--home", home.root) for each in commands]
    with socket_hidden(home):
        slow = [butlers(*each, "--home", home.root) for each in commands]
    for one, other in zip(quick, slow, strict=True):
        assert (one.returncode, one.stdout, one.stderr) == (
            other.returncode,
            other.stdout,
            other.stderr,
        )


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Always run the linter before a commit", "rule"),
        ("The server listens on port 8080", "fact"),
        ("We deployed version two today", "episode"),
    ],
)
def test_a_sentence_becomes_what_it_states(run, sentence: str, kind: str) -> None:
    assert run("remember", sentence).startswith(f"stored {kind} ")
    assert sentence in run("memory", "list", f"{kind}s")


def test_a_sentence_can_be_stored_as_something_else(run) -> None:
    assert run("remember", "--as", "rule", "-", input="Use tabs").startswith("stored rule ")
    assert "no subject" in run("remember", "--as", "fact", "Use tabs", code=1)


@pytest.mark.parametrize("kind", ["rule", "episode"])
def test_a_rule_and_an_episode_are_corrected_and_the_old_one_stays_readable(run, kind: str) -> None:
    old = stored(run, "store", kind, f"Ship the {kind} on Friday evening", "--metadata", '{"a": 1}')
    told = run("correct", old[:8], f"Ship the {kind} on Monday morning")
    new = told.split()[2].rstrip(",")
    assert told == f"stored memory {new}, replaces {old}\n"
    assert f"{kind} {new} supersedes it" in run("why", old)
    assert "Friday evening" in run("why", old)
    shown = json.loads(run("memory", "show", kind, new, "--json"))
    assert (shown["content"], shown["metadata"]) == (f"Ship the {kind} on Monday morning", {"a": 1})
    assert "Friday evening" not in run("memory", "search", "ship on Friday evening")
    assert "not current" in run("correct", old, "Ship it never", code=1)


def test_several_ids_get_a_line_each_and_an_honest_exit_code(run) -> None:
    one = stored(run, "remember", "The blue bicycle has a flat tyre")
    two = stored(run, "store", "episode", "The green bicycle was sold")
    lines = run("forget", one, "000000aa", two[:8], code=1).splitlines()
    assert lines[:2] == [f"forgot {one}", f"forgot {two[:8]}"]
    assert "no memory left to forget with id 000000aa" in lines[2]
    assert run("memory", "restore", one, two) == f"restored {one}\nrestored {two}\n"
    assert "valid is one" in run("why", one, two, code=1)


def test_today_tells_what_was_stored_and_changed(run) -> None:
    kept = stored(run, "remember", "The red bicycle belongs to Dora")
    gone = stored(run, "store", "episode", "A bicycle was stolen at noon")
    run("forget", gone)
    told = run("today")
    assert f"{kept} red bicycle · " in told
    assert gone not in told
    assert "Changed today: " in told
    assert " forgotten" in told
    assert json.loads(run("today", "--json"))["changes"]["episode_forgotten"] >= 1


def test_what_waits_is_named_by_the_beginning_of_its_id(run) -> None:
    run("store", "fact", "Mascot", "pet of the office", "an otter", "--valid-from", "2020-01-01")
    run("store", "fact", "mascot", "office pet", "an eagle", "--valid-from", "2020-01-01")
    waiting = json.loads(run("conflicts", "list", "--json"))["items"]
    for conflict in waiting:
        assert "both" in run("conflicts", "settle", conflict["id"][:8], "both")
    assert "nothing that waits" in run("conflicts", "settle", "00000000", "newer", code=1)


def test_the_home_may_be_named_before_the_command(home: Home, daemon: Daemon) -> None:
    done = butlers("--home", home.root, "memory", "list", "facts")
    assert (done.returncode, done.stderr) == (0, "")
    with socket_hidden(home):
        assert butlers("--home", home.root, "memory", "list", "facts").stdout == done.stdout


def test_files_are_those_of_the_directory_the_command_was_typed_in(run, tmp_path: Path) -> None:
    told = run("export", "out.jsonl", cwd=tmp_path)
    assert told.startswith("exported ")
    assert f"lines to {tmp_path}/out.jsonl (" in told
    assert "already there" in run("import", "out.jsonl", cwd=tmp_path)
    (tmp_path / "noise.json").write_bytes(bytes(range(128, 256)))
    assert "it is not a text file" in run("import", "noise.json", cwd=tmp_path, code=1)


def test_a_backup_to_a_directory_that_is_missing_is_refused(run, tmp_path: Path) -> None:
    for name in ("usb", "usb/"):
        assert "there is no directory" in run("backup", f"{tmp_path}/{name}", code=1)
    assert list(tmp_path.iterdir()) == []


def test_tables_fit_the_terminal_and_break_between_words(home: Home, daemon: Daemon, run) -> None:
    run(
        "store", "fact", "The quarterly report", "deadline", "the last Friday of each quarter, " * 4
    )
    with at_terminal("memory", "list", "facts", "--home", home.root) as terminal:
        assert terminal.end() == 0
    lines = terminal.screen.splitlines()
    assert max(map(len, lines)) <= 80 + len("\x1b[1m\x1b[0m")
    assert not any(line.rstrip().endswith("quart") for line in lines)
