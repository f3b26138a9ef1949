"""The essence of a session, without a model: what was asked, corrected, and what came of it."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from butlers.kernel.secrets import masked
from butlers.sessions.transcripts import Said, Speaker, Transcript, own_words

RECALLED = "[recalled]"

# A run of this many words in common is no accident.
_RUN = 5
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[^\n.!?]*(?:[.!?]+(?=\s|\Z)|[.!?]|\n|\Z)")
_FACT = re.compile(
    r"^- \[(?P<subject>.*?)\] \[.*?\]: (?P<content>.*?)(?: \(confidence: [\d.]+\))?$"
)
_LINE = re.compile(r"^- (?:\d{4}-\d\d-\d\d: )?(?P<content>.*?)…?(?: \(maturity: .*\))?$")


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


MAX_CHARACTERS = 8_000
_REQUEST, _LATER, _OUTCOME = 2_000, 500, 2_800
_MOST_LATER = 6
_ELLIPSIS = "…"

_CORRECTION = re.compile(
    r"(?i)(?:ah,? |oh,? |hm+,? |please |but |sorry,? )?"
    r"(?:no\b(?! problem| worries)|nope\b|not (?:that|what|quite|like)\b|actually\b|don['’]t\b"
    r"|do not\b|never\b|stop\b|wrong\b|instead\b|rather\b|undo\b|revert\b|wait\b"
    r"|that['’]?s (?:not|wrong|incorrect)|that is (?:not|wrong|incorrect)"
    r"|i (?:said|meant|asked|told)\b|you (?:forgot|missed|misunderstood|should(?:n['’]t| not)?)\b)"
)


@dataclass(frozen=True, slots=True)
class Essence:
    """A text to store, how many secrets were masked in it, and the last instant it covers."""

    text: str
    secrets_masked: int
    through: str = ""


def of_exchange(prompt: str, answer: str, recalled: Iterable[str]) -> Essence | None:
    """The essence of one question and its answer; None if one is missing."""
    said = [Said(Speaker.USER, own_words(prompt)), Said(Speaker.AGENT, own_words(answer))]
    return of_transcript(Transcript([one for one in said if one.text], list(recalled)))


def of_transcript(transcript: Transcript) -> Essence | None:
    """The essence of a session; None if nobody asked or nobody answered."""
    asked = [one for one in transcript.said if one.speaker is Speaker.USER]
    outcome = _outcome(transcript)
    if not asked or not outcome:
        return None
    lines, count = list[str](), 0
    for label, text, limit in _pieces(asked, outcome):
        shown, found = _fitted(text, limit)
        count += found
        lines.append(f"{label}: {shown}")
    return Essence("\n".join(lines)[:MAX_CHARACTERS], count, asked[-1].at)


def _pieces(asked: Sequence[Said], outcome: str) -> Iterator[tuple[str, str, int]]:
    yield "Request", asked[0].text, _REQUEST
    for one in _worth_keeping(asked[1:]):
        yield "Correction" if _corrects(one) else "Then", one.text, _LATER
    yield "Outcome", outcome, _OUTCOME


def _worth_keeping(later: Sequence[Said]) -> list[Said]:
    """Corrections before other requests, the latest before earlier ones, in their order."""
    ranked = sorted(range(len(later)), key=lambda place: (not _corrects(later[place]), -place))
    return [later[place] for place in sorted(ranked[:_MOST_LATER])]


def _corrects(one: Said) -> bool:
    return _CORRECTION.match(one.text) is not None


def _outcome(transcript: Transcript) -> str:
    """The last thing the agent said, without what it only repeated from memory."""
    answers = [one.text for one in transcript.said if one.speaker is Speaker.AGENT]
    if not answers:
        return ""
    told = Echo(transcript.recalled).without(answers[-1])
    return "answered from memory" if told == RECALLED else told


def _fitted(text: str, limit: int) -> tuple[str, int]:
    """The beginning of a text without secrets, and how many there were."""
    # Masked before it is cut, for half a secret is not recognised; yet only as far as needed.
    found = masked(text[: limit * 8])
    shown = found.text.strip()
    if len(shown) > limit:
        shown = shown[: limit - 1].rstrip() + _ELLIPSIS
    return shown, found.count
