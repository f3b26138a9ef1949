"""Split notes and queries into terms."""

import re
import unicodedata
from collections import Counter

from butlers.kernel.text import clean
from butlers.kernel.word_tables import load_tables

LONGEST_TERM = 64
"""Longer tokens are data, not words: the index finds them, but they have no weight."""

# English words without a meaning of their own.
STOP_WORDS = frozenset(load_tables(__file__)["stop_words"].split())
_ACCENTED = re.compile("([a-z])[\u0300-\u036f]+")


class _Letters(dict[int, str]):
    """Replaces all but letters, digits and marks by spaces, as the full-text index does.

    Without marks, words in most scripts of India would be split.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        is_letter = unicodedata.category(character)[0] in "LNM"
        self[code] = character if is_letter else " "
        return self[code]


_LETTERS = _Letters()


def words(text: str) -> list[str]:
    """List every word of a text in order, in lower case and composed."""
    return unicodedata.normalize("NFC", clean(text)).lower().translate(_LETTERS).split()


def tokenize(text: str) -> list[str]:
    """List the words of a text without stop words and single characters."""
    return [word for word in words(text) if len(word) > 1 and word not in STOP_WORDS]


def folded(word: str) -> str:
    """Return a word as the full-text index compares it: Latin letters without accents."""
    if word.isascii():
        return word
    bare = _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare)


def terms(text: str) -> list[str]:
    """List the terms by which a text is weighed: its folded words that are not too long."""
    return [folded(word) for word in tokenize(text) if len(word) <= LONGEST_TERM]


def distinct_terms(text: str) -> list[str]:
    """List each term of a text once, in order."""
    return list(dict.fromkeys(terms(text)))


def query_terms(query: str) -> list[str]:
    """List the distinct words of a query, without stop words unless it has no others."""
    return list(dict.fromkeys(map(folded, tokenize(query) or words(query))))


def term_counts(key: str, content: str) -> dict[str, int]:
    """Count each term of a note, the most frequent first."""
    return dict(Counter(terms(f"{key}\n{content}")).most_common())
