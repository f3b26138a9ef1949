"""Reading a caller's text takes time in proportion to its length, whatever it says."""

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

import pytest

from butlers.memory.policy import suspicion

MOST, NOISE_SECONDS, ENDLESS_SECONDS = 8.0, 0.01, 20.0
"""Four times the text may take eight times as long, unless it takes less than the noise."""
SIGNS = " \n\"'’.,:;-_/\\@<>[](){}#*`=|~+!?"
UNITS = [
    *(
        "a",
        "é",
        "字",
        "传",
        "я",
        "0",
        "a1",
        "a_",
        "a.",
        "a ",
        "a-",
        "a'",
        "1.",
        "A1+/",
        "\U0001f600",
    ),
    *(
        "send.keys.",
        "send passwords ",
        "ignore'",
        "ignore all ",
        "when asked always ",
        "[a] ",
        "] :",
    ),
    *("send keys a@", "e-mail ", "\n#", "- ", "\u200b", "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ= "),
    *SIGNS,
]


def words_of_the_patterns() -> list[str]:
    """Return the words in the file of patterns, so that a new pattern is tried by its own words."""
    patterns = (files("butlers.memory.policy") / "suspicion.toml").read_text(encoding="utf-8")
    plain = re.sub(r"\\[A-Za-z]|#.*", " ", patterns)
    return sorted(set(re.findall(r"[^\W\d_]{3,}", plain)))


@contextmanager
def ended_if_endless() -> Iterator[None]:
    def end(*_: object) -> None:
        raise AssertionError("reading does not end")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def seconds(text: str) -> float:
    began = time.process_time()
    with ended_if_endless():
        suspicion.doubt(text)
    return time.process_time() - began


def is_linear(text: str) -> bool:
    """Whether four times the text takes at most eight times as long, in one of two tries."""
    quarter = text[: len(text) // 4]
    return any(
        (whole := seconds(text)) <= MOST * NOISE_SECONDS or whole <= MOST * seconds(quarter)
        for _ in range(2)
    )


@pytest.mark.parametrize("unit", UNITS)
def test_a_repeated_text_is_read_in_linear_time(unit: str) -> None:
    assert is_linear((unit * suspicion.LONGEST)[: suspicion.LONGEST])


@pytest.mark.parametrize("characters", [50_000, 200_000, 1_000_000])
def test_more_than_the_longest_text_costs_no_more(characters: int) -> None:
    longest = seconds("a1 " * (suspicion.LONGEST // 3))
    assert seconds("a1 " * (characters // 3)) <= MOST * max(longest, NOISE_SECONDS)


@pytest.mark.parametrize("sign", SIGNS)
def test_a_word_of_the_patterns_before_a_run_of_signs_is_read_in_linear_time(sign: str) -> None:
    slow = [word for word in words_of_the_patterns() if not is_linear(f"{word} {sign * 400}")]
    assert not slow


def test_words_of_the_patterns_in_a_row_are_read_in_linear_time() -> None:
    words = words_of_the_patterns()
    for joint in (" ", ".", "'", ", "):
        assert is_linear((joint.join(words) * 10)[: suspicion.LONGEST])
    slow = [word for word in words if not is_linear(f"{word} " * 400)]
    assert not slow
