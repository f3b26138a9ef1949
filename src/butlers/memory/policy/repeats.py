"""Decide whether a text says again what a memory says, in the same words or in others.

Nearness of meaning, shared spellings and words speak for it; a number, a name or a denial that only
one of them has speaks against it. Another statement about the same thing shares most of its words.
"""

import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from butlers.kernel.similarity import trigrams
from butlers.kernel.text import folded, prepared, stop_words
from butlers.kernel.word_tables import load_tables
from butlers.memory.policy.decisions import ANSWERED, sentences
from butlers.memory.policy.quantities import TABLES, quantities

MOST_PARTS = 24
"""Sentences of one text that are compared."""
_FEWEST_WORDS, _PREFIX, _LONGEST = 2, 4, 2_000
_WORD = re.compile(r"[\u3040-\u9fff]|[^\W_\u3040-\u9fff](?:[\w./@-]*[^\W_])?")
_MARK = re.compile(r"[./@_]|\d{3}|^(?=[^-]*-)(?=\D*\d)")
_OWN = load_tables(__file__)
_WEIGHTS, LEAST, LISTING = _OWN["weights"], _OWN["least"], _OWN["listing"]
_DENYING = frozenset(TABLES["words"]["negation"]) | frozenset(_OWN["denial"]["words"])
_SIGNS = frozenset(_OWN["denial"]["signs"])


@dataclass(frozen=True, slots=True)
class _Reading:
    """What two texts are compared by."""

    words: frozenset[str]
    beginnings: frozenset[str]
    spelling: frozenset[str]
    marks: frozenset[str]
    values: frozenset[Any]
    denies: bool

    def missing(self, words: AbstractSet[str]) -> frozenset[str]:
        """Return those of some words that are not said, in another form either."""
        others = (word for word in words if word not in self.words)
        return frozenset(word for word in others if word[:_PREFIX] not in self.beginnings)


def parts_of(text: str) -> list[str]:
    """Return what is compared of a text: the whole, or the answer of an exchange; its sentences."""
    said = text.rpartition(ANSWERED)[2]
    each = [one for one in sentences(said) if _says_something(one)]
    return [said, *(one for one in each[:MOST_PARTS] if one != said)]


def _says_something(sentence: str) -> bool:
    return len(_read(sentence).words) >= _FEWEST_WORDS


def repeated_by(
    texts: Sequence[str], memory: str, near: Mapping[int, float], *, was_told: bool
) -> list[int]:
    """Return the places of the texts that say what a memory says, or one of its sentences.

    A memory that somebody was told lately is recognised more readily: that is what is repeated.
    """
    least: float = LEAST["told" if was_told else "untold"]
    known = _statements(memory)
    return [
        place
        for place, similarity in near.items()
        if any(likelihood(texts[place], one, similarity) >= least for one in known)
    ]


def says_again(text: str, known: str, similarity: float, *, was_told: bool = False) -> bool:
    """Return whether a text says what a memory says, or one of its sentences."""
    return bool(repeated_by([text], known, {0: similarity}, was_told=was_told))


def resemblance(text: str, known: str, similarity: float) -> float:
    """Return the likelihood that a text says what a memory says, or its likeliest sentence."""
    each = (likelihood(text, one, similarity) for one in _statements(known))
    return max(each, default=-math.inf)


def _statements(memory: str) -> list[str]:
    return [one for one in dict.fromkeys((memory, *sentences(memory))) if _says_something(one)]


def likelihood(text: str, known: str, similarity: float) -> float:
    """Return the log of the odds that a text says what another says."""
    about = compared(text, known, similarity)
    return float(_WEIGHTS["base"] + sum(_WEIGHTS[name] * value for name, value in about.items()))


def compared(text: str, known: str, similarity: float) -> dict[str, float]:
    """Return what speaks for and against that a text says what another says."""
    mine, theirs = _read(text), _read(known)
    # A longer text says more besides.
    alike = min(1.0, len(theirs.words) / max(1, len(mine.words)))
    return {
        "similarity": similarity,
        "spelling": _share(theirs.spelling, mine.spelling),
        "words": len(theirs.words - mine.missing(theirs.words)) / max(1, len(theirs.words)),
        "denial_lost": theirs.denies and not mine.denies,
        "values_kept": bool(theirs.values) and theirs.values <= mine.values,
        "values_new": bool(mine.values - theirs.values) * alike,
        "marks_kept": bool(theirs.marks & mine.marks),
        "marks_lost": bool(theirs.marks - mine.marks),
        "marks_new": bool(mine.marks - theirs.marks) * alike,
    }


def _share(of: AbstractSet[str], among: AbstractSet[str]) -> float:
    return len(of & among) / max(1, len(of))


@lru_cache(maxsize=2_000)
def _read(text: str) -> _Reading:
    plain = folded(text[:_LONGEST])
    every = _WORD.findall(plain)
    words = frozenset(word for word in every if prepared(word) not in stop_words())
    return _Reading(
        words,
        frozenset(word[:_PREFIX] for word in words if len(word) >= _PREFIX),
        trigrams(" ".join(sorted(words))),
        frozenset(word for word in words if _MARK.search(word)),
        frozenset(value for values in quantities(plain).values.values() for value in values),
        not (_DENYING.isdisjoint(every) and _SIGNS.isdisjoint(plain)) or "n't" in plain,
    )
