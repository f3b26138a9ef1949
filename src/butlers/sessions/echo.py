"""What memory told a session, recognised where somebody says it again."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

RECALLED = "[recalled]"

# A run of this many words in common is no accident.
_RUN = 5
_NEARLY_ALL = 0.8
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[^\n.!?]*(?:[.!?]+(?=\s|\Z)|[.!?]|\n|\Z)")
_FACT = re.compile(
    r"^- \[(?P<subject>.*?)\] \[.*?\]: (?P<content>.*?)(?: \(confidence: [\d.]+(?:, \w+)?\))?$"
)
_LINE = re.compile(
    r"^- (?:\d{4}-\d\d-\d\d(?: \(\w+\))?: )?(?P<content>.*?)…?(?: \(maturity: .*\))?$"
)


class Echo:
    """Recognises the texts that memory gave to a session."""

    def __init__(self, recalled: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        self._short: list[frozenset[str]] = []
        for text in recalled:
            for subject, content in _memories(text):
                self._learn(subject, content)

    def without(self, text: str) -> str:
        """The text with every sentence that repeats a memory replaced by a short note."""
        repeated = self._repeated_places(text)
        kept: list[str] = []
        for match in _SENTENCE.finditer(text):
            sentence = match[0]
            if not self._is_echo(match, repeated):
                kept.append(sentence)
            elif not kept or not kept[-1].endswith(RECALLED):
                kept.append(sentence[: len(sentence) - len(sentence.lstrip())] + RECALLED)
        return "".join(kept).strip()

    def covers(self, text: str) -> bool:
        """Whether a text says hardly anything that memory did not say."""
        return len(self._repeated_places(text)) >= max(_RUN, _NEARLY_ALL * len(_words(text)))

    def _learn(self, subject: str, content: str) -> None:
        told = [word for word, _ in _words(content)]
        self._runs.update(_runs(told))
        if 0 < len(told) < _RUN:
            # Too short to be known by itself, so it must come with what it is about.
            about = [word for word, _ in _words(subject)]
            self._short.append(frozenset([*about, *told]))

    def _repeated_places(self, text: str) -> list[int]:
        """Where words stand that belong to a memory, in order, whatever sentence they are in."""
        said = _words(text)
        covered: set[int] = set()
        for start, run in enumerate(_runs([word for word, _ in said])):
            if run in self._runs:
                covered.update(range(start, start + _RUN))
        return [said[place][1] for place in sorted(covered)]

    def _is_echo(self, match: re.Match[str], repeated: Sequence[int]) -> bool:
        first = bisect_left(repeated, match.start())
        if first < len(repeated) and repeated[first] < match.end():
            return True
        present = {word for word, _ in _words(match[0])} if self._short else set()
        return any(len(short) > 1 and short <= present for short in self._short)


def _words(text: str) -> list[tuple[str, int]]:
    """The words of a text, each with its place."""
    return [(match[0].casefold(), match.start()) for match in _WORD.finditer(text)]


def _runs(told: list[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(told[start : start + _RUN]) for start in range(len(told) - _RUN + 1))


def _memories(text: str) -> Iterator[tuple[str, str]]:
    """Subject and content of each memory in a block or in what a tool answered."""
    answer = _parsed(text)
    if answer is not None:
        yield from _fields(answer)
        return
    for line in text.splitlines():
        yield from _line(line)


def _line(line: str) -> Iterator[tuple[str, str]]:
    fact = _FACT.match(line)
    other = None if fact else _LINE.match(line)
    if fact is not None:
        yield fact["subject"], fact["content"]
    elif other is not None:
        yield "", other["content"]
    elif line.startswith(("{", "[")):
        # Programs put notes of their own before and after an answer, and cut a long one.
        answer = _parsed(line)
        yield from [("", line)] if answer is None else _fields(answer)


def _parsed(text: str) -> Any:
    """The object or list that a text is, or None."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict | list) else None


def _fields(value: Any) -> Iterator[tuple[str, str]]:
    """What stands in an answer, however deep, and in answers that are quoted in it."""
    if isinstance(value, dict):
        if isinstance(value.get("content"), str):
            yield str(value.get("subject") or ""), value["content"]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _fields(inner)
    elif isinstance(value, str) and ("\n" in value or value.startswith(("{", "["))):
        yield from _memories(value)
