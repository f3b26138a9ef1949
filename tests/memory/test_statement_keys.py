"""What a sentence is about: the same for whoever says it otherwise, plain where nothing says it."""

import json
from pathlib import Path

import pytest

from butlers.memory.policy.statement_keys import statement_key

PAIRS = Path(__file__).parents[2] / "bench" / "stores" / "statements" / "keys.jsonl"


@pytest.mark.parametrize(
    ("sentence", "subject", "predicate", "value"),
    [
        ("We decided that releases happen on Tuesdays.", "releases", "day", "Tuesdays"),
        ("We release every second Monday.", "releases", "day", "second Monday"),
        ("The cache listens on port 6380 on my laptop.", "cache", "port", "6380"),
        ("Amounts are always integers, in cents.", "amounts", "are", "integers"),
        ("my sister doesn't eat fish btw", "sister", "eat", "fish"),
        ("For the queue we use Redis.", "queue", "use", "Redis"),
        ("We've settled on Redis for the queue.", "queue", "use", "Redis"),
        ("We're deploying with nix now.", "project", "deploy with", "nix"),
        ("We decided to store amounts as cents.", "amounts", "store as", "cents"),
        ("Wir bauen jetzt mit bun.", "project", "bauen mit", "bun"),
        ("No, the oven is in the yard.", "oven", "is", "in the yard"),
        ("I live in Ghent.", "user", "live in", "Ghent"),
        ("Mein Editor ist Helix.", "user", "editor", "Helix"),
        ("Run it.", "project", "note", "Run it"),
        ("My goodness.", "user", "note", "My goodness"),
    ],
)
def test_subject_and_predicate_come_from_the_grammar(sentence, subject, predicate, value) -> None:
    key = statement_key(sentence)
    assert (key.subject, key.predicate, key.value) == (subject, predicate, value)


def test_the_same_matter_said_otherwise_has_the_same_key() -> None:
    pairs = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()]
    equal = []
    for pair in pairs:
        one, other = statement_key(pair["one"]), statement_key(pair["other"])
        same = (one.subject, one.predicate) == (other.subject, other.predicate)
        equal.append(same and not one.is_plain)
    assert len(pairs) == 30
    assert sum(equal) >= 0.8 * len(pairs)


@pytest.mark.parametrize(
    ("earlier", "later", "replaced"),
    [
        ("The cache is on port 6380.", "The cache listens on port 6390.", True),
        ("The invoice goes out on the 3rd.", "The invoice goes out on the 5th.", True),
        ("My editor is Zed.", "My editor is Helix now.", True),
        ("My editor is Zed.", "My editor is zed.", False),
        ("I prefer rye.", "I prefer tabs.", False),
        ("My sister doesn't eat fish.", "My sister doesn't eat nuts.", False),
        ("The vault is heavy.", "The vault is green.", False),
        ("Run it.", "Sell it.", False),
        ("The cache is on port 6380.", "The queue is on port 6390.", False),
    ],
)
def test_only_what_has_one_value_is_replaced(earlier, later, replaced) -> None:
    assert statement_key(earlier).is_replaced_by(statement_key(later)) == replaced
