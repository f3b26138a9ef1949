"""Term weights and the corpus they are taken from."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.kernel.similarity import IDFCorpus, term_frequency

documents = st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), max_size=8)


@pytest.mark.contract("K-A1")
def test_term_frequency_is_normalised_by_length() -> None:
    assert term_frequency(["a", "b", "a", "c"]) == {"a": 0.5, "b": 0.25, "c": 0.25}
    assert term_frequency([]) == {}


@pytest.mark.contract("K-A4")
def test_idf_follows_the_formula() -> None:
    corpus = IDFCorpus()
    corpus.add_document(["a", "b", "a"])
    corpus.add_document(["a", "c"])
    assert corpus.documents == 2
    assert corpus.idf("a") == 0.0
    assert corpus.idf("b") == pytest.approx(math.log(3 / 2))
    assert corpus.idf("unheard") == pytest.approx(math.log(3))


@pytest.mark.contract("K-A4")
def test_vectors_sparse_and_dense_agree() -> None:
    corpus = IDFCorpus()
    corpus.add_document(["a", "b"])
    corpus.add_document(["a", "c"])
    sparse = corpus.tfidf_vector(["a", "b", "b", "c"])
    assert sparse == pytest.approx({"b": 0.5 * math.log(1.5), "c": 0.25 * math.log(1.5)})
    dense = corpus.tfidf_dense_vector(["a", "b", "b", "c"], ["c", "a", "zzz", "b"])
    assert dense == [sparse["c"], 0.0, 0.0, sparse["b"]]


@pytest.mark.contract("K-A4")
@given(documents, documents)
def test_removing_takes_back_exactly_what_adding_counted(
    kept: list[list[str]], removed: list[list[str]]
) -> None:
    corpus, expected = IDFCorpus(), IDFCorpus()
    for tokens in kept:
        corpus.add_document(tokens)
        expected.add_document(tokens)
    for tokens in removed:
        corpus.add_document(tokens)
    for tokens in removed:
        corpus.remove_document(tokens)
    assert corpus.documents == expected.documents
    assert [corpus.idf(t) for t in "abcdef"] == [expected.idf(t) for t in "abcdef"]


@pytest.mark.contract("K-A4")
def test_removing_from_nothing_stays_at_nothing() -> None:
    corpus = IDFCorpus()
    corpus.remove_document(["a"])
    corpus.add_document(["a"])
    assert corpus.documents == 1
    assert corpus.idf("a") == 0.0


def test_a_corpus_counted_elsewhere_is_taken_over() -> None:
    assert IDFCorpus(9, {"a": 4}).idf("a") == pytest.approx(math.log(2))
