"""Assign a note to one of ten categories by its words."""

import re
from collections import Counter
from collections.abc import Iterable

from butlers.kernel.word_tables import load_tables
from butlers.notebook.model import CategoryResult, MemoryCategory
from butlers.notebook.tokenizer import words

CONFIDENCE_FLOOR = 0.1
_CERTAIN = 50
"""This many points give full confidence."""

_IN_KEY, _IN_CONTENT = 15, 10
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_APOSTROPHE = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]")
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "er", "ers", "ment", "ments", "able", "ee", "ees")


_SIGNS = {MemoryCategory(name): signs for name, signs in load_tables(__file__).items()}


def all_categories() -> list[MemoryCategory]:
    """List the ten categories."""
    return list(MemoryCategory)


def categorize(key: str, content: str) -> CategoryResult:
    """Return the category with the most points; `general` with confidence 0 if there are none."""
    points = _points(_phrases(key), _phrases(content))
    if not points:
        return CategoryResult(MemoryCategory.GENERAL, 0.0)
    best = max(_SIGNS, key=points.__getitem__)
    return CategoryResult(best, max(CONFIDENCE_FLOOR, min(1.0, points[best] / _CERTAIN)))


def _points(key: set[str], content: set[str]) -> Counter[MemoryCategory]:
    """Add up the points of every keyword; one in the key counts more."""
    named = _match_phrases(_KEYWORDS, key)
    points: Counter[MemoryCategory] = Counter()
    for sign in named | _match_phrases(_KEYWORDS, content):
        points[sign[0]] += _IN_KEY if sign in named else _IN_CONTENT
    for category, _ in _match_phrases(_NAMES, key):
        points[category] += _SIGNS[category]["weight"]
    return points


def _phrases(text: str) -> set[str]:
    """List every word and every pair of neighbours; `dbPassword` is read as one word and as two."""
    phrases: set[str] = set()
    whole = _APOSTROPHE.sub("", text)
    for reading in {whole, _HUMP.sub(" ", whole)}:
        single = words(reading)
        phrases.update(single, map(" ".join, zip(single, single[1:], strict=False)))
    return phrases


_Sign = tuple[MemoryCategory, str]
_Index = dict[str, list[_Sign]]


def _match_phrases(index: _Index, phrases: Iterable[str]) -> set[_Sign]:
    return {sign for phrase in phrases for sign in index.get(phrase, ())}


def _indexed(texts: Iterable[tuple[MemoryCategory, str]]) -> _Index:
    """Map each form of each spelling to its keywords."""
    index: _Index = {}
    for category, signs in texts:
        for sign in signs.split():
            for form in {form for spelling in sign.split("|") for form in _forms(spelling)}:
                index.setdefault(form, []).append((category, sign))
    return index


def _forms(spelling: str) -> set[str]:
    """List a word and its inflections; of two words the last is inflected."""
    if spelling.startswith("="):
        return {spelling[1:]}
    phrase = spelling.replace("-", " ")
    stem = phrase[:-1] if phrase[-1] in "ey" else phrase + phrase[-1]
    forms = {phrase + ending for ending in _ENDINGS}
    return forms | {stem + ending for ending in ("ing", "ed", "ies", "ied")}


_KEYWORDS = _indexed((category, signs["signs"]) for category, signs in _SIGNS.items())
_NAMES = _indexed((category, signs["naming"]) for category, signs in _SIGNS.items())
