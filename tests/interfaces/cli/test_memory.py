"""`butlers memory` as a person types it, over a real home, with and without a daemon."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest

from butlers.host.home import Home
from butlers.interfaces.cli import output
from butlers.interfaces.cli.memory_details import change
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, up
from interfaces.furnished import furnished_home

HOSTILE = "[red]cashews[/red] \x1b[31mRED\x1b[0m \x9b2J \u202eesrever :smile:"
WRITTEN_OUT = r"[red]cashews[/red] \x1b[31mRED\x1b[0m \x9b2J esrever :smile:"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with furnished_home("general") as home:
        home.create_butler("general")
        yield home


class Life:
    """A few memories told on the command line, by name."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.nuts = self.stored("store-fact", "Ann", "allergy", "nuts", "--importance", 8)
        self.cashews = self.stored("store-fact", "Ann", "allergy", HOSTILE, "--tag", "health")
        self.dinner = self.stored("store-episode", "-", input="Ann came to dinner,\nand left.\n")
        self.rule = self.stored("store-rule", "Ask guests about allergies", "--scope", "general")

    def run(self, *arguments: object, **how: object) -> str:
        told = butlers("memory", *arguments, "--home", self.home.root, **how)
        assert told.returncode == 0, told.stderr
        assert told.stderr == ""
        return told.stdout

    def json(self, *arguments: object, **how: object):
        return json.loads(self.run(*arguments, "--json", **how))

    def stored(self, *arguments: object, **how: object) -> str:
        return str(self.json(*arguments, **how)["id"])

    def refused(self, *arguments: object) -> str:
        told = butlers("memory", *arguments, "--home", self.home.root)
        assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1), told
        assert told.stderr.startswith("butlers: ")
        return told.stderr


@pytest.fixture(scope="module")
def daemon(home: Home) -> Iterator[Daemon]:
    with up(home) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def life(home: Home, daemon: Daemon) -> Life:
    return Life(home)


def test_without_a_daemon_the_database_runs_for_the_command(home: Home) -> None:
    told = butlers("memory", "store-fact", "Bob", "likes", "tea", "-b", "general",
                   "--tenant", "alone", "--home", home.root)  # fmt: skip
    assert (told.returncode, told.stderr) == (0, "")
    kind, memory_id = told.stdout.split()[1:]
    assert (kind, len(memory_id)) == ("fact", 36)
    assert not (home.database_directory / "data" / "postmaster.pid").exists()


def test_search_shows_scores_and_stored_text_steers_nothing(life: Life, daemon: Daemon) -> None:
    heading, *lines = life.run("search", "what is Ann allergic to?").splitlines()
    assert heading.split() == ["relevance", "similarity", "keywords", "kind", "id", "content"]
    (fact,) = [line for line in lines if life.cashews in line]
    assert fact.split()[3] == "fact"
    assert fact.endswith(f"Ann · allergy: {WRITTEN_OUT}")
    (found,) = life.json("search", "dinner", "--mode", "keyword", "--type", "episode", "-n", 1)
    assert (found["id"], found["content"]) == (life.dinner, "Ann came to dinner,\nand left.")
    assert life.run("search", "dinner", "--tenant", "nobody") == "nothing found\n"
    assert daemon.health() == 200


def test_recall_shows_the_parts_of_a_score(life: Life) -> None:
    heading, *lines = life.run("recall", "Ann's allergy").splitlines()
    assert heading.split() == ["score", "rel", "imp", "rec", "conf", "kind", "id", "content"]
    assert lines[0].split()[5:7] == ["fact", life.cashews]
    recalled = life.json("recall", "Ann's allergy", "--limit", 1)
    assert recalled[0]["score_parts"].keys() == {
        "relevance", "importance", "recency", "confidence",
    }  # fmt: skip


def test_context_prints_the_block_and_nothing_else(life: Life) -> None:
    block = life.run("context", "Plan a dinner with Ann")
    assert "\n## Key Facts\n- [Ann] [allergy]: [red]cashews" in block
    assert block.endswith("Ann came to dinner, and left.\n")
    assert "\x1b" not in block
    built = life.json("context", "Plan a dinner with Ann", "--budget", 300)
    assert built["text"] == block
    assert built["tokens"] <= 300
    assert {line["id"] for line in built["included"]} == {life.cashews, life.dinner, life.rule}
    assert life.run("context", "Plan a dinner with Ann", "--budget", 0) == ""


def test_a_life_is_told_and_explained(life: Life) -> None:
    assert life.run("confirm", life.cashews[:8]) == f"confirmed {life.cashews[:8]}\n"
    heading, *events = life.run("history", life.nuts[:6]).splitlines()
    assert heading.split() == ["when", "(UTC)", "event", "by", "request", "change"]
    created, superseded = events
    assert "fact created     cli  –        → active; " in created
    assert "cli  –        active → superseded; valid: always → until 20" in superseded
    assert f"; superseded by: {life.cashews}" in superseded
    told = life.run("explain", "fact", life.cashews)
    for line in (
        "state       active",
        "confidence  1.00 now (standard)",
        f"links       supersedes fact {life.nuts}",
    ):
        assert line in told.splitlines()
    assert "by cli (butler general)" in told
    assert f"replaced    {life.nuts} of " in told
    for name in ("confirmed", "fades", "expires"):
        assert f"\n{name:10}  2" in told
    explained = life.json("explain", life.nuts)
    assert [one["id"] for one in explained["replaced_by"]] == [life.cashews]
    assert explained["stored_by"] == "cli"


def test_get_shows_everything_a_memory_says(life: Life) -> None:
    told = life.run("get", life.dinner[:7]).splitlines()
    assert f"id                      {life.dinner}" in told
    assert told[2:4] == [
        "content                 Ann came to dinner,",
        "                        and left.",
    ]
    read = life.json("get", "rule", life.rule)
    assert (read["content"], read["scope"]) == ("Ask guests about allergies", "general")


def test_marks_move_a_rule(life: Life) -> None:
    told = life.run("helpful", life.rule[:8])
    assert told == (
        "candidate, effectiveness 1.00 (1 helpful, 0 harmful): Ask guests about allergies\n"
    )
    marked = life.json("harmful", life.rule, "--reason", "a guest felt spied upon")
    assert (marked["harmful_count"], marked["metadata"]["harmful_reasons"]) == (
        1,
        ["a guest felt spied upon"],
    )
    assert "cli, harmful: a guest felt spied upon" in life.run("explain", life.rule)


def test_forgetting_restoring_and_counting(life: Life) -> None:
    size = life.stored("store-fact", "Ann", "shoe size", "39", "--permanence", "permanent")
    assert life.run("forget", "fact", size) == f"forgot fact {size}\n"
    assert "no fact left to forget" in life.refused("forget", "fact", size)
    assert life.json("stats")["facts"]["retracted"] == 1
    assert life.json("restore", size[:8]) == {"restored": True}
    counted = [line.split() for line in life.run("stats", "--scope", "general").splitlines()]
    assert ["facts", "active", "2"] in counted
    assert ["facts", "retracted", "0"] in counted
    assert ["rules", "candidate", "1"] in counted


def test_refusals_take_one_line(life: Life) -> None:
    assert "has no memory 00000000" in life.refused("get", "00000000")
    assert "no forgotten fact or rule" in life.refused("restore", life.rule)
    assert "an episode cannot be confirmed" in life.refused("confirm", "episode", life.dinner)
    assert "permanence: found 'for ever'" in life.refused(
        "store-fact", "a", "b", "c", "--permanence", "for ever"
    )
    assert "there is no butler 'ghost'" in life.refused("stats", "-b", "ghost")
    assert "has no memory" in life.refused("history", life.nuts, "--tenant", "rival")


def test_on_a_terminal_there_are_tables_with_short_ids(life: Life) -> None:
    told = on_terminal("memory", "search", "what is Ann allergic to?", "--home", life.home.root)
    assert "\x1b[1mrelevance  similarity" in told
    assert life.cashews[:8] in told
    assert life.cashews[:9] not in told
    assert "[red]cashews[/red]" in told
    assert r"\x1b[31mRED\x1b[0m" in told
    for steering in ("\x1b[31m", "\x9b", "\u202e"):
        assert steering not in told
    assert all(len(line) <= 200 for line in told.splitlines())


def on_terminal(*arguments: object) -> str:
    """What a command writes to a terminal."""
    ours, its = pty.openpty()
    environment = ENVIRONMENT | {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    command = [sys.executable, "-m", "butlers", *map(str, arguments)]
    with subprocess.Popen(command, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        written = b"".join(iter(lambda: _read(ours), b""))
        assert process.wait(timeout=60) == 0, written
    os.close(ours)
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the last writer closed it
        return b""


def test_the_memory_commands_need_no_mcp() -> None:
    code = (
        "import sys; sys.argv = ['butlers', 'memory', 'stats', '--home', '/nonexistent']\n"
        "import butlers.interfaces.python\nfrom butlers.interfaces.cli import run_command\n"
        "run_command(sys.argv[1:])\nprint(*sys.modules)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert "there are no butlers in /nonexistent" in told.stderr
    assert not {"mcp", "fastapi", "uvicorn"} & set(told.stdout.split())


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"to": "active", "scope": "global"}, "→ active; scope: global"),
        ({"from": "active", "to": "fading"}, "active → fading"),
        ({"effectiveness_score": {"from": 1.0, "to": 0.19996}}, "effectiveness score: 1 → 0.2"),
        ({"harmful_count": {"from": 0, "to": 0}, "reason": None}, ""),
        ({"from": {"name": "Jo"}, "to": {"name": "J."}}, '{"name": "Jo"} → {"name": "J."}'),
        ({"created": [{"type": "fact", "id": "x"}]}, 'created: [{"type": "fact", "id": "x"}]'),
        ({"aliases": ["Jo", "J."], "consolidated": True}, "aliases: Jo, J.; consolidated: yes"),
        ({}, ""),
    ],
)  # fmt: skip
def test_a_change_is_told_from_what_to_what(payload: dict[str, object], told: str) -> None:
    assert change(payload) == told


def test_long_memories_are_cut_in_tables_only() -> None:
    said = output.excerpt({"content": "x" * 1000})
    assert (len(said), said[-1]) == (output.EXCERPT + 1, "…")


def test_text_that_the_output_cannot_carry_is_written_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output.show_fields(("says", "tea\r\nand\x07\tmilk\x00"))
    output.show_table(("n", "says"), [["10", "a\nb"]], right=("n",))
    assert capsys.readouterr().out == "says  tea\n      and\\x07\tmilk\\x00\n n  says\n10  a b\n"
    monkeypatch.setattr(type(sys.stdout), "encoding", "ascii", raising=False)
    output.show_line("Jürgen → 茶")
    assert capsys.readouterr().out == "J\\xfcrgen \\u2192 \\u8336\n"
