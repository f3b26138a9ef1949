"""Find names in text, however they are written."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from butlers.kernel.text import folded

# A name of one letter would be found everywhere.
_SHORTEST = 2
# Scripts that put no space between words.
_UNSPACED = re.compile(
    "[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\U00020000-\U000323af]"
)
_BEFORE, _AFTER = r"(?<![^\W_])", r"(?:['’`]?s|['’`])?(?![^\W_])"


class Mentions:
    """Finds any of some names as whole words: in any case, with or without accents, possessive."""

    def __init__(self, names: Iterable[str]) -> None:
        words = sorted({folded(name).strip() for name in names}, key=lambda w: (-len(w), w))
        self.names = tuple(word for word in words if len(word) >= _SHORTEST)
        self._pattern = re.compile("|".join(map(_pattern, self.names)) or r"(?!)")

    def in_text(self, text: str) -> bool:
        """Whether a text contains one of the names."""
        return self._pattern.search(folded(text)) is not None

    def in_value(self, value: Any) -> bool:
        """Whether any text of a JSON value does, keys included."""
        return any(map(self.in_text, texts_in(value)))


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text of a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


def _pattern(name: str) -> str:
    words = r"\s+".join(map(re.escape, name.split()))
    return words if _UNSPACED.search(name) else f"{_BEFORE}(?:{words}){_AFTER}"
