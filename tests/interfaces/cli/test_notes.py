"""`butlers notes` as a person types it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from interfaces.daemons import butlers, temporary_home


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with temporary_home() as home:
        home.create_butler("general")
        home.create_butler("kitchen")
        home.butler_file("general").write_text("[modules.notebook]\nenabled = true\n")
        yield home


def notes(home: Home, *arguments: object, **how: Any) -> str:
    told = butlers("notes", *arguments, "--home", home.root, **how)
    assert told.returncode == 0, told.stderr
    assert told.stderr == ""
    return told.stdout


def as_json(home: Home, *arguments: object) -> Any:
    return json.loads(notes(home, *arguments, "--json"))


def refusal(home: Home, *arguments: object) -> str:
    told = butlers("notes", *arguments, "--home", home.root)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.count("\n") == 1
    return told.stderr


def test_a_note_from_saving_to_its_summary(home: Home) -> None:
    told = notes(home, "save", "project:alpha", "-", input="cluster\n\x1b[31mred")
    assert told == "saved project:alpha (project)\n"
    saved = as_json(home, "save", "project:beta", "cluster failover")
    assert (saved["key"], saved["agent_id"]) == ("project:beta", "general")
    assert notes(home, "recall", "project:alpha") == "cluster\n\\x1b[31mred\n"
    found = as_json(home, "search", "failover cluster")
    assert [one["memory"]["key"] for one in found["memories"]] == ["project:beta", "project:alpha"]
    assert found["mode"] == "fast"
    assert "project:beta" in notes(home, "search", "failover", "--category", "project")
    listed = notes(home, "list", "-n", "1").splitlines()
    assert len(listed) == 2
    (related,) = as_json(home, "related", "project:alpha")
    assert related["memory"]["key"] == "project:beta"
    assert as_json(home, "summarize", "--all")["archived"] == 0
    assert as_json(home, "recall", "project:alpha")["archived"] is False
    told = as_json(home, "stats")
    assert (told["notes"], told["archived"], told["file"]["agents"]) == (2, 0, 1)
    assert "2, and 0 archived" in notes(home, "stats")
    # The daemon need not run, and PostgreSQL is not started for it.
    assert not home.database_directory.exists()


@pytest.mark.contract("K-I1")
def test_each_agent_and_tenant_has_notes_of_its_own(home: Home) -> None:
    notes(home, "save", "k", "of ann", "--agent", "ann")
    notes(home, "save", "k", "of a rival", "--agent", "ann", "--tenant", "rival")
    assert notes(home, "recall", "k", "--agent", "ann") == "of ann\n"
    told = refusal(home, "recall", "k", "--agent", "bob")
    assert "agent bob of tenant default has no note 'k'; `butlers notes list`" in told


def test_what_cannot_be_is_refused_in_one_line(home: Home) -> None:
    assert "set modules.notebook.enabled = true" in refusal(home, "list", "-b", "kitchen")
    assert "category: found 'food'" in refusal(home, "list", "--category", "food")
    assert "agent: found 'a b'" in refusal(home, "list", "--agent", "a b")
    assert "mode is 'slow'" in refusal(home, "search", "x", "--mode", "slow")


def test_a_token_may_be_for_one_agent(home: Home) -> None:
    told = butlers("token", "new", "--agent", "ann", "--tenant", "acme", "--home", home.root)
    assert "tenant acme, agent ann, may write;" in told.stdout
    store = TokenStore(home.tokens_file)
    record = store.verify(told.stdout.splitlines()[-1], "general")
    assert record is not None
    assert (record.tenant, record.agent) == ("acme", "ann")
    assert butlers("token", "list", "--home", home.root).stdout.rstrip().endswith("  ann")


def test_a_deep_search_asks_the_butlers_runtime() -> None:
    answer = '{"ranking": [{"note": 2, "score": 0.9}]}'
    with temporary_home() as home:
        home.create_butler("general")
        home.butler_file("general").write_text(
            "[modules.memory]\nenabled = false\n[modules.notebook]\nenabled = true\n"
            f"[runtime]\nkind = \"command\"\ncommand = ['/bin/echo', '{answer}']\n"
        )
        for key in ("a", "b"):
            notes(home, "save", key, f"cluster {key}")
        found = as_json(home, "search", "cluster", "--mode", "deep")
    (one,) = found["memories"]
    assert (one["score"], one["source"], found["mode"]) == (0.9, "llm", "deep")
