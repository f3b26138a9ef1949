"""Tell which earlier decision a later one makes past, by rule and by nearness of meaning.

A wrong "past" hides a decision that holds, so nothing is past by resemblance alone: the later one
gives the same property another value, or names what it gives up, or says that something changes
and is plainly about the same matter.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Any

from butlers.kernel.text import folded, normalise_whitespace, one_line, stop_words
from butlers.kernel.word_tables import expression, load_tables
from butlers.memory.policy.quantities import quantities, stem
from butlers.memory.policy.statement_keys import statement_key

_TABLES = load_tables(__file__)
_OUTRIGHT, _GRADUAL, _ADDITION = (
    expression(*_TABLES[name]) for name in ("outright", "gradual", "addition")
)
_GIVEN_UP = [expression(text) for text in _TABLES["given_up"]]
_EXCLUDING = expression(_TABLES["excluding"])
_WORD = re.compile(r"[^\W_][\w./@-]*[^\W_]|[^\W_]")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_NEAR_VALUE, _NEAR_OUTRIGHT, _NEAR_NAMED, _NEAR_GRADUAL, _NEAREST = 0.4, 0.42, 0.55, 0.58, 0.7
"""Cosines of the two texts, from which a change said in that way is about the same matter."""
_FEW_SENTENCES, _NEAR_LONG = 3, 0.6
"""A longer text, of which more may still hold, must be nearer."""
LONGEST_WORDS = 300
"""Characters of a user's words that may settle something by themselves."""
_FEW_TEXTS, _MANY_TEXTS = 10, 0.25
ANSWERED = " → "
"""Between the words of a user and the answer in the text of an exchange."""


class WhyPast(StrEnum):
    """Why a later decision makes an earlier one past."""

    ANOTHER_VALUE = "another value of the same property"
    GIVEN_UP = "names what it gives up"
    CHANGED = "says that it changes"


def why_past(
    later: str, earlier: str, near: float, frequent: frozenset[str] = frozenset()
) -> WhyPast | None:
    """Return why a later decision makes an earlier one past; None if both hold.

    `near` is the cosine of their embeddings, `frequent` the words that say nothing in this project.
    """
    if not _is_one_matter(earlier, later, near) or _says_the_same(later, earlier):
        return None
    known = set(map(str.casefold, sentences(earlier)))
    new = [one for one in sentences(later) if one.casefold() not in known]
    pairs = [(one, other) for one in new for other in sentences(earlier)]
    if near >= _NEAR_VALUE and any(_is_replaced(one, other) for one, other in pairs):
        return WhyPast.ANOTHER_VALUE
    reasons = (_reason(one, other, near, frequent) for one, other in pairs)
    return next(filter(None, reasons), None)


def may_decide(text: str) -> bool:
    """Whether words of a user may settle something by themselves: short, not only a question."""
    told = [one for one in sentences(text) if not one.endswith("?")]
    is_telling = any(len(distinctive_words(one)) > 1 for one in told)
    return len(text) <= LONGEST_WORDS and len(told) <= _FEW_SENTENCES and is_telling


def own_words(text: str) -> str:
    """Return what the user said of an exchange, before the answer to it."""
    return text.partition(ANSWERED)[0]


def frequent_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that many decisions of a project have, such as its name."""
    words = [distinctive_words(text) for text in texts]
    if len(words) < _FEW_TEXTS:
        return frozenset()
    counts = Counter(word for of_text in words for word in of_text)
    return frozenset(word for word, many in counts.items() if many > len(words) * _MANY_TEXTS)


def only_quotes(text: str, decision: str) -> bool:
    """Whether a text says nothing but what a decision quotes of it, questions aside."""
    quoted = normalise_whitespace(decision).casefold()
    own = [one for one in sentences(text) if normalise_whitespace(one).casefold() not in quoted]
    told = [one for one in own if not one.endswith("?") and len(distinctive_words(one)) > 1]
    return len(own) < len(sentences(text)) and not told


def past_line(text: str, until: date) -> str:
    """Return how a past decision is told: with the day until which it held."""
    return f"until {until.day} {until:%b %Y}: {one_line(text)}"


@lru_cache(maxsize=1_000)
def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a decision."""
    return tuple(filter(None, map(str.strip, _SENTENCE.split(text))))


@lru_cache(maxsize=1_000)
def distinctive_words(text: str) -> frozenset[str]:
    """Return the stems that say what a text is about: no numbers, no words that all texts have."""
    words = (stem(word) for word in _words(text) if word not in stop_words())
    return frozenset(word for word in words if _tells(word) and word not in _COMMON)


def _words(text: str) -> list[str]:
    return _WORD.findall(folded(text))


def _tells(word: str) -> bool:
    """Whether a word can say what something is about: no number, not too short."""
    letters = sum(map(str.isalpha, word))
    return letters > 2 or (letters > 0 and len(word) > letters)


_COMMON = frozenset(map(stem, _words(_TABLES["common"])))


def _says_the_same(later: str, earlier: str) -> bool:
    """Whether a text only repeats another."""
    mine, theirs = distinctive_words(later), distinctive_words(earlier)
    differ = quantities(folded(earlier)).differ_from(quantities(folded(later)))
    return mine <= theirs and differ is None and not _names_old(later, earlier)


def _is_one_matter(earlier: str, later: str, near: float) -> bool:
    """Whether each sentence of an earlier decision is about what the later one speaks of.

    Some share a word with the later one, the others with these. Of two matters decided in one text
    the later changes one at most, and the text still holds.
    """
    told, each = distinctive_words(later), [one for one in sentences(earlier) if _words(one)]
    shared = [distinctive_words(one) for one in each if distinctive_words(one) & told]
    if len(each) > _FEW_SENTENCES and (near < _NEAR_LONG or len(shared) * 2 < len(each)):
        return False
    known, values = told.union(*shared), quantities(folded(earlier)).values
    return len(each) == 1 or all(
        _only_repeats(one, values) if not words & known else bool(shared)
        for one in each
        if len(words := distinctive_words(one)) > 1
    )


def _only_repeats(sentence: str, values: Mapping[str, frozenset[Any]]) -> bool:
    """Whether a sentence gives numbers or dates, and only such as the whole text has alone."""
    mine = quantities(folded(sentence)).values
    return bool(mine) and all(values[kind] == of_kind for kind, of_kind in mine.items())


def _is_replaced(later: str, earlier: str) -> bool:
    key = statement_key(earlier)
    return key.is_replaced_by(statement_key(later)) and not _ADDITION.search(later)


def _reason(later: str, earlier: str, near: float, frequent: frozenset[str]) -> WhyPast | None:
    """Return why a sentence makes another past, by the words of change it has."""
    shared = (distinctive_words(later) & distinctive_words(earlier)) - frequent
    old = _names_old(later, earlier)
    if old and near >= _NEAR_NAMED and (shared - old or near >= _NEAREST):
        return WhyPast.GIVEN_UP
    if not shared or (old is None and _EXCLUDING.search(later)):
        return None
    return WhyPast.CHANGED if _changes(later, earlier, near) else None


def _changes(later: str, earlier: str, near: float) -> bool:
    if _OUTRIGHT.search(later):
        return near >= _NEAR_OUTRIGHT
    if not _GRADUAL.search(later) or _ADDITION.search(later) or near < _NEAR_GRADUAL:
        return False
    return quantities(folded(earlier)).differ_from(quantities(folded(later))) is not None


def _names_old(sentence: str, earlier: str) -> frozenset[str] | None:
    """Return the words of an earlier decision that a sentence gives up, None if it names none."""
    known = distinctive_words(earlier)
    named = (match["old"] for pattern in _GIVEN_UP for match in pattern.finditer(sentence))
    return next((words & known for words in map(distinctive_words, named) if words & known), None)
