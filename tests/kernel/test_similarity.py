"""Cosines, overlap and trigrams."""

import math

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.errors import InvalidInput
from butlers.kernel.similarity import (
    cosine_similarity_dense,
    cosine_similarity_sparse,
    jaccard,
    trigram_similarity,
    trigrams,
)

weights = st.dictionaries(st.sampled_from("abcde"), st.floats(-1e6, 1e6), max_size=5)


@pytest.mark.contract("K-A1")
def test_cosines_are_the_angle() -> None:
    assert cosine_similarity_sparse({"a": 1, "b": 1}, {"a": 1}) == pytest.approx(math.sqrt(0.5))
    assert cosine_similarity_dense([1, 1], [1, 0]) == pytest.approx(math.sqrt(0.5))
    assert cosine_similarity_dense([1, 2], [-1, -2]) == pytest.approx(-1)
    assert cosine_similarity_sparse({"a": 3}, {"b": 3}) == 0


@pytest.mark.contract("K-I16", "K-E9")
def test_a_zero_vector_is_like_nothing() -> None:
    assert cosine_similarity_sparse({}, {"a": 1.0}) == 0
    assert cosine_similarity_sparse({"a": 0.0}, {"a": 1.0}) == 0
    assert cosine_similarity_sparse({}, {}) == 0
    assert cosine_similarity_dense([0.0, 0.0], [1.0, 2.0]) == 0
    assert cosine_similarity_dense([], []) == 0


@pytest.mark.contract("K-I16")
@given(weights, weights)
def test_sparse_and_dense_agree_and_stay_within_bounds(
    a: dict[str, float], b: dict[str, float]
) -> None:
    sparse = cosine_similarity_sparse(a, b)
    dense = cosine_similarity_dense(*[[v.get(t, 0.0) for t in "abcde"] for v in (a, b)])
    assert -1 <= sparse <= 1
    assert sparse == pytest.approx(dense, abs=1e-9)


def test_dense_vectors_of_two_dimensions_are_refused() -> None:
    with pytest.raises(InvalidInput, match="1 and 2 dimensions"):
        cosine_similarity_dense([1.0], [1.0, 2.0])


def test_jaccard_is_the_shared_part() -> None:
    assert jaccard({"a", "b", "c"}, {"b", "c", "d"}) == 0.5
    assert jaccard({"a"}, {"b"}) == 0
    assert jaccard(set(), set()) == 0


def test_trigrams_are_padded_as_pg_trgm_pads_them() -> None:
    assert trigrams("Cat") == {"  c", " ca", "cat", "at "}
    assert trigrams("foo|bar") == {"  f", " fo", "foo", "oo ", "  b", " ba", "bar", "ar "}


@pytest.mark.contract("L17")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("word", "two words"),
        ("hello", "Hello"),
        ("snake_case", "snake case"),
        ("abc", "xyz"),
        ("", "abc"),
        ("", ""),
        ("a", "ab"),
        ("O'Neill & Sons", "oneill sons"),
        ("aaaa", "aa"),
        ("Müller-Straße 12", "muller strasse"),
        ("Ünal Öztürk", "ÜNAL ÖZTÜRK"),
        ("東京タワー", "東京"),
        ("100% _off_", "100 off"),
    ],
)
async def test_trigram_similarity_is_what_pg_trgm_answers(
    owner: asyncpg.Connection, a: str, b: str
) -> None:
    expected = await owner.fetchval("select similarity($1, $2)", a, b)
    assert trigram_similarity(a, b) == pytest.approx(expected, abs=1e-6)
