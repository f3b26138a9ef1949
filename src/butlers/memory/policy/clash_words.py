"""The words by which statements are compared, from `clashes.toml`."""

import tomllib
from importlib.resources import files
from typing import Any

from butlers.kernel.plain_words import plain_words

TABLES: dict[str, Any] = tomllib.loads(
    (files(__package__) / "clashes.toml").read_text(encoding="utf-8")
)

_ENDINGS = ("ments", "ment", "ings", "ing", "ies", "ers", "ed", "er", "es", "s", "e", "y")
_SHORTEST = {"s": 3, "e": 4, "y": 4}


def stem(word: str) -> str:
    """A word without the ending that its forms differ by, roughly."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST.get(ending, 4):
            return stem(word.removesuffix(ending))
    return word


def is_plain(word: str) -> bool:
    """Whether a folded word says little by itself."""
    return word in plain_words()
