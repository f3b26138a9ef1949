"""Recognise in a session what memory returned to it before."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

RECALLED = "[recalled]"

# This many words in a row in common are no accident.
_RUN = 5
_NEARLY_ALL = 0.8
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[^\n.!?]*(?:[.!?]++|\n|\Z)")
_FACT = re.compile(
    r"^- \[(?P<subject>.*?)\] \[.*?\]: (?P<content>.*?)(?: \(confidence: [\d.]+(?:, [^()]*)?\))?$"
)
_LINE = re.compile(
    r"^- (?:\d{4}-\d\d-\d\d(?:, [^:(]*)?(?: \([^()]*\))?: )?"
    r"(?P<content>.*?)…?(?: \(maturity: .*\))?$"
)


class Echo:
    """Recognises repetitions of the texts that memory gave to a session."""

    def __init__(self, recalled: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        self._short: list[frozenset[str]] = []
        for text in recalled:
            for subject, content in memories_in(text):
                words = [word for word, _ in _words(content)]
                self._runs.update(_runs(words))
                if 0 < len(words) < _RUN:
                    # Too short to be recognised alone: it must come with its subject.
                    about = [word for word, _ in _words(subject)]
                    self._short.append(frozenset([*about, *words]))

    def without(self, text: str) -> str:
        """Return the text with a short mark for every sentence that repeats a memory."""
        repeated = self._repeated_places(text)
        sentences: list[str] = []
        for match in _SENTENCE.finditer(text):
            sentence = match[0]
            if not self._is_echo(match, repeated):
                sentences.append(sentence)
            elif not sentences or not sentences[-1].endswith(RECALLED):
                sentences.append(sentence[: len(sentence) - len(sentence.lstrip())] + RECALLED)
        return "".join(sentences).strip()

    def covers(self, text: str) -> bool:
        """Whether nearly all words of a text repeat memories."""
        return len(self._repeated_places(text)) >= max(_RUN, _NEARLY_ALL * len(_words(text)))

    def _repeated_places(self, text: str) -> list[int]:
        """Return the positions of words that repeat a memory, in order."""
        words = _words(text)
        covered: set[int] = set()
        for start, run in enumerate(_runs([word for word, _ in words])):
            if run in self._runs:
                covered.update(range(start, start + _RUN))
        return [words[index][1] for index in sorted(covered)]

    def _is_echo(self, match: re.Match[str], repeated: Sequence[int]) -> bool:
        first = bisect_left(repeated, match.start())
        if first < len(repeated) and repeated[first] < match.end():
            return True
        present = {word for word, _ in _words(match[0])} if self._short else set()
        return any(len(short) > 1 and short <= present for short in self._short)


def _words(text: str) -> list[tuple[str, int]]:
    """List the words of a text, each with its position."""
    return [(match[0].casefold(), match.start()) for match in _WORD.finditer(text)]


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1))


def memories_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield subject and content of each memory in a context or in a tool's result."""
    result = _parsed(text)
    if result is not None:
        yield from _fields(result)
        return
    for line in text.splitlines():
        if fact := _FACT.match(line):
            yield fact["subject"], fact["content"]
        elif other := _LINE.match(line):
            yield "", other["content"]
        elif line.startswith(("{", "[")):
            # Programs put notes of their own before and after a result, and cut a long one.
            result = _parsed(line)
            yield from [("", line)] if result is None else _fields(result)


def _parsed(text: str) -> Any:
    """Parse a JSON object or list; None for any other text."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        return value if isinstance(value, dict | list) else None
    return None


def _fields(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the memories in a result at any depth, and in results quoted in it."""
    if isinstance(value, dict):
        if isinstance(value.get("content"), str):
            yield str(value.get("subject") or ""), value["content"]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _fields(inner)
    elif isinstance(value, str) and ("\n" in value or value.startswith(("{", "["))):
        yield from memories_in(value)
