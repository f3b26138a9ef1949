"""Which of the ten categories a note belongs to, judged by its words."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files

from butlers.notebook.model import CategoryResult, MemoryCategory
from butlers.notebook.tokens import words

CONFIDENCE_FLOOR = 0.1
_CERTAIN = 50
"""As many points leave no doubt."""

_IN_KEY, _IN_CONTENT = 15, 10
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_APOSTROPHE = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]")
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "er", "ers", "ment", "ments", "able", "ee", "ees")


_SIGNS = {
    MemoryCategory(name): signs
    for name, signs in tomllib.loads(
        (files(__package__) / "categories.toml").read_text(encoding="utf-8")
    ).items()
}


def all_categories() -> list[MemoryCategory]:
    """The ten categories."""
    return list(MemoryCategory)


def categorize(key: str, content: str) -> CategoryResult:
    """The category most of the signs point to; `general`, with confidence 0, where none does."""
    points = _points(_phrases(key), _phrases(content))
    if not points:
        return CategoryResult(MemoryCategory.GENERAL, 0.0)
    best = max(_SIGNS, key=points.__getitem__)
    return CategoryResult(best, max(CONFIDENCE_FLOOR, min(1.0, points[best] / _CERTAIN)))


def _points(key: set[str], content: set[str]) -> Counter[MemoryCategory]:
    """What every sign found adds to its category, more where it stands in the key."""
    named = _match_phrases(_KEYWORDS, key)
    points: Counter[MemoryCategory] = Counter()
    for sign in named | _match_phrases(_KEYWORDS, content):
        points[sign[0]] += _IN_KEY if sign in named else _IN_CONTENT
    for category, _ in _match_phrases(_NAMES, key):
        points[category] += _SIGNS[category]["weight"]
    return points


def _phrases(text: str) -> set[str]:
    """Every word and every two neighbours; `dbPassword` is read as one word and as two."""
    found: set[str] = set()
    whole = _APOSTROPHE.sub("", text)
    for reading in {whole, _HUMP.sub(" ", whole)}:
        single = words(reading)
        found.update(single, map(" ".join, zip(single, single[1:], strict=False)))
    return found


_Sign = tuple[MemoryCategory, str]
_Index = dict[str, list[_Sign]]


def _match_phrases(index: _Index, phrases: Iterable[str]) -> set[_Sign]:
    return {sign for phrase in phrases for sign in index.get(phrase, ())}


def _indexed(texts: Iterable[tuple[MemoryCategory, str]]) -> _Index:
    """Each spelling of each sign, in all its forms, to the signs it stands for."""
    index: _Index = {}
    for category, signs in texts:
        for sign in signs.split():
            for form in {form for spelling in sign.split("|") for form in _forms(spelling)}:
                index.setdefault(form, []).append((category, sign))
    return index


def _forms(spelling: str) -> set[str]:
    """A word as it stands and as it is bent; of two words the last is."""
    if spelling.startswith("="):
        return {spelling[1:]}
    phrase = spelling.replace("-", " ")
    stem = phrase[:-1] if phrase[-1] in "ey" else phrase + phrase[-1]
    forms = {phrase + ending for ending in _ENDINGS}
    return forms | {stem + ending for ending in ("ing", "ed", "ies", "ied")}


_KEYWORDS = _indexed((category, signs["signs"]) for category, signs in _SIGNS.items())
_NAMES = _indexed((category, signs["naming"]) for category, signs in _SIGNS.items())
