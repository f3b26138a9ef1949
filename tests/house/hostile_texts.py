"""Texts written to make a reader slow, and how to tell that one is: growth within one run."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHORT = 2_000
GROWTH, MOST = 4, 9.0
"""A text of so many times the length may take so many times as long; quadratic takes 16 times."""
NOISE_SECONDS, ENDLESS_SECONDS = 0.0015, 20.0
"""Less than the noise at the short length cannot be quadratic in any way that matters."""

UNITS = (
    *("a", " ", "é", "字", "0", "_", ".", "-", "/", "(", "[", "{", "<", '"', "`", "“", ":", "\n"),
    *("a ", "A", "a_", "a.", "a-", "a@", "a=", "1.", "1-", "a'", "'", "(((", "\n#", "- ", "<a "),
    *("😀", "!", "?", "\\", "\t", "\xa0", "[a] ", "a/", "aGVsbG8gd29ybGQ=", "\r\n", ", ", "今後"),
)
FEW_UNITS = ("a", " ", "字", "0", "_", ".", "/", "(", "[", '"', "“", "\n", "a ", "a_", "a@", "\n- ")
_SPECIAL = re.compile(r"\\[A-Za-z]|\(\?[:=!<P]*|\\u[0-9a-fA-F]{4}")
_LITERAL = re.compile(r"[^\W\d_]{2,}|[^\w\s\\]")


def own_texts(expression: str, most: int = 8) -> Iterator[str]:
    """Yield units that almost match an expression, made of its own literals."""
    literals = list(dict.fromkeys(_LITERAL.findall(_SPECIAL.sub(" ", expression))))
    some = literals[:: max(1, len(literals) // most)][:most]
    yield from (f"{literal} " for literal in some)
    yield from filter(None, ("".join(some), " ".join(literals)))


def tails(expression: str, most: int = 4) -> Iterator[str]:
    """Yield the beginnings after which a long run may be read again and again."""
    literals = list(dict.fromkeys(_LITERAL.findall(_SPECIAL.sub(" ", expression))))
    for literal in literals[:: max(1, len(literals) // most)][:most]:
        yield from (f"{literal} \0a", f"{literal}\0 ")


def of_length(unit: str, length: int) -> str:
    """Repeat a unit, or what follows the NUL in it, up to a length; the end is something else."""
    head, found, repeated = unit.partition("\0")
    if not found:
        head, repeated = "", unit
    return (head + repeated * (length // len(repeated) + 1))[: length - 1] + "^"


def seconds(read: Callable[[str], object], text: str) -> float:
    """Return the processor time of reading a text; a hang fails."""
    began = time.thread_time()
    with _ended_if_endless():
        read(text)
    return time.thread_time() - began


def is_linear(read: Callable[[str], object], unit: str, short: int = SHORT) -> bool:
    """Whether four times the text takes about four times as long, in one of three tries."""
    if seconds(read, of_length(unit, short)) < NOISE_SECONDS:
        return True
    return any(
        seconds(read, of_length(unit, GROWTH * short))
        <= MOST * max(seconds(read, of_length(unit, short)), NOISE_SECONDS)
        for _ in range(3)
    )


@contextmanager
def _ended_if_endless() -> Iterator[None]:
    def end(*_: object) -> None:
        raise AssertionError("reading does not end")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
