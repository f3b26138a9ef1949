"""Term weights: how often a word stands in a text, against how many texts it stands in."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence


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
