"""What is done to text before it is stored, searched or shown."""

import re
from collections.abc import Mapping
from typing import Any

from butlers.kernel.invisible import without_any_unseen, without_unseen

MAX_SEARCHABLE_BYTES = 1_048_576
"""How much of a text reaches its search vector; PostgreSQL refuses tsvectors above 1 MB."""

DEEPEST = 500
"""How deep JSON may be nested: less than what Python's own reader and writer bear."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# Not \s alone: control characters and the Unicode separators break lines in some readers.
_BREAKING = re.compile("[\\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def clean(text: str) -> str:
    """The text without NUL and without what nobody sees, always encodable as UTF-8."""
    return without_unseen(replace_surrogates(text.replace("\x00", "")))


def clean_json(value: object, depth: int = DEEPEST) -> Any:
    """A JSON value with every text in it clean, keys included.

    What JSON does not know is a TypeError of its type's name; what is nested deeper than that, a
    RecursionError.
    """
    if depth == 0:
        raise RecursionError
    match value:
        case str():
            return clean(value)
        case None | bool() | int() | float():
            return value
        case list() | tuple():
            return [clean_json(item, depth - 1) for item in value]
        case Mapping():
            return {_clean_key(key): clean_json(item, depth - 1) for key, item in value.items()}
    raise TypeError(type(value).__name__)


def _clean_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(type(key).__name__)
    return clean(key)


def replace_surrogates(text: str) -> str:
    """The text with surrogate pairs as the character they stand for, lone surrogates as U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def normalise_whitespace(text: str) -> str:
    """The text with every run of whitespace made one space, and none at either end."""
    return " ".join(text.split())


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts differ in spaces and capitals at most."""
    return normalise_whitespace(one).casefold() == normalise_whitespace(other).casefold()


def preprocess_text(text: str) -> str:
    """The text as its search vector is made from it: clean, on one line, at most 1 MB."""
    # No code point takes less than a byte, so what lies beyond never needs encoding.
    beginning = normalise_whitespace(clean(text))[:MAX_SEARCHABLE_BYTES].encode()
    return beginning[:MAX_SEARCHABLE_BYTES].decode("utf-8", "ignore").rstrip()


def preprocess_search_query(query: str | None) -> str:
    """The query clean and on one line, whatever its length; nothing asked is the empty string."""
    return normalise_whitespace(clean(query)) if query else ""


def one_line(text: str) -> str:
    """The text on a single line, read in the order it is stored, so that it forges no heading."""
    return _BREAKING.sub(" ", without_any_unseen(clean(text))).strip()
