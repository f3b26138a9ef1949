"""The category of a note, by its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.notebook import MemoryCategory, all_categories, categorize

EXAMPLES = {
    "config": ("db-settings", "default timeout and port of the host, from the environment"),
    "code": ("refactor-notes", "the function in this module raises an exception"),
    "person": ("anna", "her name is Anna, email anna@example.org, birthday in May"),
    "project": ("project:alpha", "milestone two of the roadmap before the release"),
    "credential": ("api-key", "secret token for GitHub"),
    "preference": ("editor", "prefers the dark theme and likes vim style"),
    "fact": ("france", "Paris is the capital, population two million, founded long ago"),
    "conversation": ("yesterday", "we discussed this in the meeting, she said and asked much"),
    "task": ("todo", "remind me to finish before the deadline, high priority"),
    "general": ("xyzzy", "plugh"),
}


@pytest.mark.contract("K-A1", "K-A2")
def test_the_taxonomy_has_ten_categories() -> None:
    assert all_categories() == list(EXAMPLES)
    assert all(isinstance(category, MemoryCategory) for category in all_categories())


@pytest.mark.contract("K-A1")
@pytest.mark.parametrize("category", EXAMPLES)
def test_each_category_is_found_by_its_words(category: str) -> None:
    assert categorize(*EXAMPLES[category]).category == category


@pytest.mark.contract("K-I11")
def test_no_keyword_is_general_with_no_confidence() -> None:
    found = categorize("xyzzy", "plugh")
    assert (found.category, found.confidence) == ("general", 0.0)


@pytest.mark.contract("K-I11")
def test_one_word_among_many_others_has_the_floor() -> None:
    mixed = "config code email project password prefers fact chat todo " * 3
    assert categorize("x", mixed).confidence == 0.1


@pytest.mark.contract("K-I11")
@given(
    st.text(max_size=20),
    st.lists(
        st.sampled_from(" ".join(text for pair in EXAMPLES.values() for text in pair).split()),
        max_size=30,
    ),
)
def test_confidence_is_zero_or_from_the_floor_to_one(key: str, words: list[str]) -> None:
    found = categorize(key, " ".join(words))
    if found.category == "general":
        assert found.confidence == 0.0
    else:
        assert 0.1 <= found.confidence <= 1.0


def test_the_key_says_more_than_the_content() -> None:
    assert categorize("password", "a chat").category == "credential"


def test_parts_of_words_are_no_keywords() -> None:
    assert categorize("x", "unsettling tokenization classical").category == "general"
