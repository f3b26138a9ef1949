"""Compare texts: TF-IDF weights, and similarity of vectors, sets and spellings."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from butlers.errors import InvalidInput


def term_frequency(tokens: Sequence[str]) -> dict[str, float]:
    """Return each term's share of the tokens; empty without tokens."""
    total = len(tokens)
    return {term: count / total for term, count in Counter(tokens).items()}


class IDFCorpus:
    """Counts of documents, and of documents that contain each term."""

    def __init__(self, documents: int = 0, frequencies: Mapping[str, int] | None = None) -> None:
        self._documents = documents
        self._frequencies = dict(frequencies or {})
        # Computed at once: a search needs the same ones again and again.
        log, above = math.log, documents + 1
        self._known = {term: log(above / (1 + n)) for term, n in self._frequencies.items()}

    @property
    def documents(self) -> int:
        """The number of documents."""
        return self._documents

    def add_document(self, tokens: Iterable[str]) -> None:
        """Count a document and each of its distinct terms once."""
        self._recount(1, tokens)

    def remove_document(self, tokens: Iterable[str]) -> None:
        """Undo `add_document` of the same tokens; no count falls below zero."""
        self._recount(-1, tokens)

    def idf(self, term: str) -> float:
        """Return `log((N + 1) / (1 + df))`: zero for a term that every document contains."""
        return math.log((self._documents + 1) / (1 + self._frequencies.get(term, 0)))

    def weights(self, frequencies: Mapping[str, float]) -> dict[str, float]:
        """Multiply each frequency by its term's IDF; terms of weight zero are left out."""
        known, idf = self._known.get, self.idf
        return {
            term: weight
            for term, share in frequencies.items()
            if (weight := share * (known(term) or idf(term)))
        }

    def tfidf_vector(self, tokens: Sequence[str]) -> dict[str, float]:
        """Return the sparse TF-IDF vector of a document."""
        return self.weights(term_frequency(tokens))

    def tfidf_dense_vector(self, tokens: Sequence[str], vocab_index: Sequence[str]) -> list[float]:
        """Return the TF-IDF vector over a vocabulary; other terms are left out."""
        vector = self.tfidf_vector(tokens)
        return [vector.get(term, 0.0) for term in vocab_index]

    def _recount(self, step: int, tokens: Iterable[str]) -> None:
        self._documents = max(0, self._documents + step)
        for term in set(tokens):
            left = self._frequencies.pop(term, 0) + step
            if left > 0:
                self._frequencies[term] = left
        self._known = {}


_ALPHANUMERIC = re.compile(r"[^\W_]+")


def cosine_similarity_sparse(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Return the cosine of two sparse vectors; 0 if either has no length."""
    shorter, longer = (a, b) if len(a) <= len(b) else (b, a)
    dot = sum(weight * longer[term] for term, weight in shorter.items() if term in longer)
    return _cosine(dot, math.hypot(*a.values()), math.hypot(*b.values())) if dot else 0.0


def cosine_similarity_dense(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of two dense vectors of one dimension; 0 if either has no length."""
    if len(a) != len(b):
        raise InvalidInput(f"vectors of {len(a)} and {len(b)} dimensions cannot be compared")
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return _cosine(dot, math.hypot(*a), math.hypot(*b)) if dot else 0.0


def jaccard(a: AbstractSet[str], b: AbstractSet[str]) -> float:
    """Return the share of all members that are in both sets; 0 if both are empty."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def trigrams(text: str) -> frozenset[str]:
    """Return the trigrams of every word, in lower case and padded as in pg_trgm."""
    padded = (f"  {word} " for word in _ALPHANUMERIC.findall(text.lower()))
    return frozenset(word[i : i + 3] for word in padded for i in range(len(word) - 2))


def trigram_similarity(a: str, b: str) -> float:
    """Return what `similarity(a, b)` of PostgreSQL's pg_trgm returns."""
    return jaccard(trigrams(a), trigrams(b))


def _cosine(dot: float, length_a: float, length_b: float) -> float:
    """Return the cosine, kept within [-1, 1] despite rounding."""
    return max(-1.0, min(1.0, dot / length_a / length_b))
