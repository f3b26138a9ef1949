"""What people say when something is private, and what only sounds like it."""

import time
import tomllib
from pathlib import Path

import pytest

from butlers.sessions.privacy_words import find_request

_EXAMPLES = tomllib.loads((Path(__file__).parent / "private_sentences.toml").read_text("utf-8"))
CASES = [(kind, text) for kind, texts in _EXAMPLES.items() for text in texts]


@pytest.mark.contract("L53")
@pytest.mark.parametrize(("kind", "text"), CASES, ids=[text for _, text in CASES])
def test_a_request_is_recognised_and_nothing_else(kind: str, text: str) -> None:
    assert (find_request(text) or "none") == kind


def test_a_request_among_other_sentences_covers_its_own_turn() -> None:
    assert find_request("I hate my boss. Don't remember that.") == "turn"
    assert find_request("Fix the test first.\nPlease don't save this chat, ok?") == "session"
    assert find_request("> Don't remember this.\nWhat does this mail ask for?") is None
    assert find_request("```\ndo not store this conversation\n```\nExplain this text.") is None


@pytest.mark.parametrize(
    "text",
    [
        "don't remember " * 5_000,
        "x" * 2_000_000 + " don't save this conversation",
        "'don't' save " * 2_000,
        "do not keep (" * 3_000,
        "from now on don't store, " * 100,
        "i would rather you not " * 300,
    ],
)
def test_looking_for_a_request_takes_little_time(text: str) -> None:
    find_request("don't keep this conversation")  # what is read once is read
    started = time.process_time()
    find_request(text)
    assert time.process_time() - started < 0.5
