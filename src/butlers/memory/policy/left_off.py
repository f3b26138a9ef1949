"""Choose what of the latest sessions says where work stopped: an outcome, and what is open."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from butlers.kernel.word_tables import expression, load_tables
from butlers.memory.model import PieceKind

Row = Mapping[str, Any]
_OPEN_END = expression(*load_tables(__file__, "question_forms.toml")["open_end"])
_SENTENCE = re.compile(r"(?<=[.!?。！？;])\s+|\n+")
_READ_SESSIONS, _MOST_OPEN = 3, 3


@dataclass(frozen=True, slots=True)
class LeftOff:
    """A line about the latest sessions, and the piece it rests on."""

    row: Row
    text: str


def lines_left_off(pieces: Sequence[Row]) -> Iterator[LeftOff]:
    """Yield how the latest session ended, then what the last few left open.

    `pieces` are of one project, the latest first.
    """
    sessions = [list(rows) for _, rows in groupby(pieces, key=lambda row: row["session"])]
    if not sessions:
        return
    yield from _outcome(sessions[0])
    left = _MOST_OPEN
    for rows in sessions[:_READ_SESSIONS]:
        for row in rows:
            if left and (sentences := _open_sentences(row)):
                left -= 1
                yield LeftOff(row, f"open: {sentences}")


def _outcome(rows: Sequence[Row]) -> Iterator[LeftOff]:
    """Yield the last exchange of a session."""
    last = next((row for row in rows if row["piece"] == PieceKind.ANSWER), None)
    if last is not None:
        yield LeftOff(last, last["content"])


def _open_sentences(row: Row) -> str:
    if row["piece"] not in (PieceKind.SAID, PieceKind.ANSWER):
        return ""
    sentences = (text.strip("→ ") for text in _SENTENCE.split(row["content"]))
    return " ".join(text for text in sentences if _OPEN_END.search(text))
