"""What an agent does by tools, typed in: claim, submit, and deciding what waits."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from butlers.host.home import Home
from butlers.interfaces.cli.memory_views import VIEWS
from interfaces.daemons import butlers, operating
from interfaces.furnished import furnished_home


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with furnished_home("general") as home:
        home.create_butler("general")
        yield home


def memory(home: Home, *arguments: str, **how: Any) -> str:
    told = butlers("memory", *arguments, "--home", home.root, **how)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def test_episodes_are_read_and_what_was_drawn_is_decided_by_hand(home: Home):
    file = home.butler_file("general")
    file.write_text(file.read_text().replace("#review = false", "review = true"))
    memory(home, "store-episode", "Dora owns a red bicycle")
    claim = json.loads(memory(home, "claim-episodes", "--json"))
    drawn = {"subject": "Dora", "predicate": "owns", "content": "a red bicycle"}
    said = json.dumps({"new_facts": [drawn, {**drawn, "content": "a yacht"}]})
    report = json.loads(memory(home, "submit-consolidation", claim["claim_id"], said, "--json"))
    assert (report["proposals_made"], len(report["errors"])) == (1, 1)
    (waiting,) = json.loads(memory(home, "proposals", "--json"))
    assert waiting["kind"] == "new_fact" and waiting["proposed"]["content"] == "a red bicycle"
    assert "red bicycle" in memory(home, "proposals")
    allowed = {"env": operating(home)}
    assert "new_fact" in memory(home, "accept", waiting["id"], **allowed)
    declined = memory(home, "decline", waiting["id"], "--json", **allowed)
    assert json.loads(declined) == {"declined": False}
    over = butlers("memory", "submit-consolidation", claim["claim_id"], "{}", "--home", home.root)
    assert over.returncode != 0 and "this claim is over" in over.stderr


def test_an_undo_shows_what_goes_and_what_may_say_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {"memory_type": "fact", "id": "1f0c9a77", "state": "active", "content": "Paid in May"}
    lists = {"memories": [row | {"is_copy": True}], "copies_left": []}
    possible = [row | {"content": "Pay in May", "original": "Paid in May"}]
    VIEWS["undo_source"]({"facts": 1, **lists, "copies_possible": possible}, {})
    shown = capsys.readouterr().out
    assert "yes" in shown and "copies that you" not in shown
    assert shown.rindex("Pay in May") > shown.index("--also ID") > shown.index("1f0c9a77")
