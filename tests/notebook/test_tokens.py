"""Texts taken apart into terms."""

import pytest

from butlers.notebook import Notebook, fast_search, save_memory, tokenize
from butlers.notebook.tokenizer import folded, query_terms, term_counts, terms


@pytest.mark.contract("K-A1")
def test_lower_case_without_punctuation_stop_words_and_single_characters() -> None:
    assert tokenize("The QUICK, brown-fox: is a x (jumping)!") == [
        "quick",
        "brown",
        "fox",
        "jumping",
    ]


@pytest.mark.contract("K-E8")
@pytest.mark.parametrize("text", ["", "  \n", "?!…", "the of a", "\x00"])
def test_nothing_to_say_is_no_token(text: str) -> None:
    assert tokenize(text) == []


@pytest.mark.contract("L24")
@pytest.mark.parametrize(
    "word", ["हिन्दी", "naïve", "straße", "ёлка", "日本語", "ภาษาไทย", "עברית", "தமிழ்", "ﬁx3d"]
)
def test_words_of_every_script_stay_whole(word: str) -> None:
    assert tokenize(f"({word})") == [word]


def test_composed_and_decomposed_are_one_word() -> None:
    assert tokenize("cafe\u0301") == tokenize("caf\u00e9")


def test_a_query_of_stop_words_alone_is_still_a_query() -> None:
    assert query_terms("to be or not to be") == ["to", "be", "or", "not"]
    assert query_terms("to be a kubernetes") == ["kubernetes"]


def test_terms_are_counted_the_most_frequent_first_and_data_left_out() -> None:
    counts = term_counts("topic:b", "aa bb bb topic " + "z" * 65)
    assert list(counts.items()) == [("topic", 2), ("bb", 2), ("aa", 1)]


@pytest.mark.contract("K-I17")
@pytest.mark.parametrize(
    ("word", "bare"),
    [
        ("café", "cafe"),
        ("cafe\u0301", "cafe"),
        ("ångström", "angstrom"),
        ("tiếng", "tieng"),
        ("straße", "straße"),
        ("ёлка", "ёлка"),
        ("हिन्दी", "हिन्दी"),
        ("が", "が"),
    ],
)
def test_terms_are_folded_as_the_index_folds_them(db: Notebook, word: str, bare: str) -> None:
    assert folded(word) == bare
    assert terms(word * 2) == [bare * 2]
    save_memory(db, "a", "k", word)
    assert [r.memory.key for r in fast_search(db, "a", bare)] == ["k"]


def test_a_term_of_data_and_a_stop_word_weigh_nothing() -> None:
    assert terms("the " + "z" * 65 + " " + "y" * 64) == ["y" * 64]
