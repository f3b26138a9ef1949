"""Whether an agent used a line it was given: cases judged by hand before the judge was written."""

import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from butlers.sessions.verdicts import Exchange, Verdict, judge

DATA = Path(__file__).parents[1] / "data"
ID = "2c0097b0-63b9-4aff-974c-3f10e9e95ab6"


def cases(name: str) -> list[dict[str, Any]]:
    return list(tomllib.loads((DATA / name).read_text("utf-8"))["case"])


def judged(case: Mapping[str, Any]) -> Verdict:
    said = case["prompt"], case["answer"], case.get("actions", ()), case.get("next", ())
    return judge(case["line"], ID, Exchange(*said))


CASES = [
    *cases("verdicts.toml"),
    *cases("verdicts_kept_aside.toml"),
    *cases("verdicts_later.toml"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["answer"][:40])
def test_the_judge_says_what_a_reader_says(case: dict[str, Any]) -> None:
    assert judged(case) == case["verdict"]


def test_the_id_of_a_memory_says_that_it_was_used() -> None:
    said = Exchange("Why?", f"Because of memory {ID[:8]}.")
    assert judge("- nothing in common", ID, said) is Verdict.USED


def test_a_long_answer_is_judged_in_linear_time() -> None:
    words = " ".join(f"word{number}" for number in range(200_000))
    began = time.perf_counter()
    assert judge("- the cache is on port 6390", ID, Exchange(words, words)) is Verdict.IGNORED
    assert time.perf_counter() - began < 2


def test_nothing_is_used_of_a_line_that_says_only_what_the_prompt_said() -> None:
    said = Exchange("Is the cache on port 6390?", "Yes, the cache is on port 6390.")
    assert judge("- cache: port 6390", ID, said) is Verdict.IGNORED
