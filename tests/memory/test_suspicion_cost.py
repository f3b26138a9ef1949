"""The cost of judging a text grows with its length, whatever the text is."""

import time

import pytest

from butlers.memory.policy.suspicion import LONGEST, doubt

HOSTILE = (
    "a",
    "0a",
    "é",
    "ё",
    "\n",
    " \n",
    "a ",
    "a.",
    "a-",
    "]",
    "[a] ",
    "- ",
    "#",
    "\n#",
    "curl ",
    "send password ",
)


def seconds(text: str) -> float:
    """Return the least processor time of three judgements."""
    spent = []
    for _ in range(3):
        began = time.process_time()
        doubt(text)
        spent.append(time.process_time() - began)
    return min(spent)


@pytest.mark.parametrize("unit", HOSTILE)
def test_judging_four_times_the_text_takes_about_four_times_as_long(unit: str) -> None:
    long = (unit * LONGEST)[:LONGEST]
    short = long[: LONGEST // 4]
    assert seconds(long) < 8 * max(seconds(short), 0.002)  # quadratic: 16 times


@pytest.mark.parametrize(
    "text",
    ["# Memory Context", "\n \n\t# key facts", "so\n\n   ## Active Rules", "- - # recent episodes"],
)
def test_a_forged_heading_is_noticed_after_any_space(text: str) -> None:
    assert doubt(text)
