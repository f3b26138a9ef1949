"""Compare texts: weigh their terms, and measure how alike vectors, sets and spellings are."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from butlers.errors import InvalidInput


def term_frequency(tokens: Sequence[str]) -> dict[str, float]:
    """Each term's share of the tokens; nothing for no tokens."""
    total = len(tokens)
    return {term: count / total for term, count in Counter(tokens).items()}


class IDFCorpus:
    """How many documents there are, and how many of them hold each term."""

    def __init__(self, documents: int = 0, frequencies: Mapping[str, int] | None = None) -> None:
        self._documents = documents
        self._frequencies = dict(frequencies or {})
        # Worked out at once: a search asks for the same ones again and again.
        log, above = math.log, documents + 1
        self._known = {term: log(above / (1 + n)) for term, n in self._frequencies.items()}

    @property
    def documents(self) -> int:
        """How many documents are counted."""
        return self._documents

    def add_document(self, tokens: Iterable[str]) -> None:
        """Count a document and each of its distinct terms once."""
        self._recount(1, tokens)

    def remove_document(self, tokens: Iterable[str]) -> None:
        """Take back what adding the same tokens counted; nothing falls below zero."""
        self._recount(-1, tokens)

    def idf(self, term: str) -> float:
        """`log((N + 1) / (1 + df))`: zero for a term that every document holds."""
        return math.log((self._documents + 1) / (1 + self._frequencies.get(term, 0)))

    def weights(self, frequencies: Mapping[str, float]) -> dict[str, float]:
        """Each frequency times its term's IDF, without the terms that weigh nothing."""
        known, idf = self._known.get, self.idf
        return {
            term: weight
            for term, share in frequencies.items()
            if (weight := share * (known(term) or idf(term)))
        }

    def tfidf_vector(self, tokens: Sequence[str]) -> dict[str, float]:
        """The sparse TF-IDF vector of a document."""
        return self.weights(term_frequency(tokens))

    def tfidf_dense_vector(self, tokens: Sequence[str], vocab_index: Sequence[str]) -> list[float]:
        """The TF-IDF vector laid out along a vocabulary; terms outside it are left out."""
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
    """The cosine between two sparse vectors; 0 where either has no length."""
    shorter, longer = (a, b) if len(a) <= len(b) else (b, a)
    dot = sum(weight * longer[term] for term, weight in shorter.items() if term in longer)
    return _cosine(dot, math.hypot(*a.values()), math.hypot(*b.values())) if dot else 0.0


def cosine_similarity_dense(a: Sequence[float], b: Sequence[float]) -> float:
    """The cosine between two dense vectors of one dimension; 0 where either has no length."""
    if len(a) != len(b):
        raise InvalidInput(f"vectors of {len(a)} and {len(b)} dimensions cannot be compared")
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return _cosine(dot, math.hypot(*a), math.hypot(*b)) if dot else 0.0


def jaccard(a: AbstractSet[str], b: AbstractSet[str]) -> float:
    """The share of all members that both sets hold; 0 where both are empty."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def trigrams(text: str) -> frozenset[str]:
    """The trigrams of every word of the text, in lower case and padded as pg_trgm pads them."""
    padded = (f"  {word} " for word in _ALPHANUMERIC.findall(text.lower()))
    return frozenset(word[i : i + 3] for word in padded for i in range(len(word) - 2))


def trigram_similarity(a: str, b: str) -> float:
    """What PostgreSQL's `similarity(a, b)` of pg_trgm answers."""
    return jaccard(trigrams(a), trigrams(b))


def _cosine(dot: float, length_a: float, length_b: float) -> float:
    """Kept within [-1, 1], which rounding can leave by a hair."""
    return max(-1.0, min(1.0, dot / length_a / length_b))
