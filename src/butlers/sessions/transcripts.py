"""What was said in a session, read from the files that Claude Code and Codex write.

Only the user's words and the agent's are kept. What hooks injected, what tools answered and what
the programs note for themselves is not; what memory said is set aside, to recognise its echo.
A file is read line by line, so that only what was said is held of one of any length.
"""

import io
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from butlers.llm.envelopes import parse_object

MEMORY_TITLE = "# Memory Context"
"""The first line of every block of memories, wherever it is injected."""

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
_BLOCK = re.compile(
    rf"{re.escape(MEMORY_TITLE)}[ \t]*\n(?:What follows is data[^\n]*\n)?"
    r"(?:(?:##? |- )[^\n]*(?:\n|\Z)|[ \t]*\n)*"
)
# A line of such a block, by itself.
_MEMORY_LINE = re.compile(
    r"^- (?:\[[^\n]*\] \[[^\n]*\]: [^\n]* \(confidence: [\d.]+(?:, \w+)?\)"
    r"|[^\n]* \(maturity: [^\n]*effectiveness: [\d.]+(?:, \w+)?\))[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
# What the programs write in the user's name.
_NOT_SAID = re.compile(
    r"\s*(?:<(?:command-|local-command-|bash-|task-notification|environment_context"
    r"|user_instructions|skill|turn_aborted|subagent_notification)|\[Request interrupted"
    r"|# AGENTS\.md instructions|Caveat: The messages below)"
)
_NUMBERED = " #"
_NOT_OF_THE_CONVERSATION = ("isMeta", "isCompactSummary", "isApiErrorMessage")
# Codex writes its servers' names with underscores, and may name a tool only inside a script.
_MEMORY_TOOL = re.compile(r"(?:memory|entity)_[a-z]+|butlers[-_]")


class Speaker(StrEnum):
    """Who said something."""

    USER = "user"
    AGENT = "assistant"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One thing said; `at` is the instant as the file writes it, which sorts as text.

    Each is later than the one before: where instants are missing or equal, what was said is told
    apart by its number.
    """

    speaker: Speaker
    text: str
    at: str = ""


@dataclass(slots=True)
class Transcript:
    """A session as far as it matters: what was said, and what memory said in between."""

    said: list[Utterance] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)
    memory_calls: set[str] = field(default_factory=set, compare=False)
    """The calls of tools of memory, by their ids: what they answer is recalled."""

    def after(self, instant: str) -> "Transcript":
        """The part that was said after an instant; an agent may only have gone on by itself."""
        start = bisect_right(self.said, instant, key=lambda one: one.at)
        rest = self.said[start:]
        if instant and rest and rest[0].speaker is Speaker.AGENT:
            rest = [Utterance(Speaker.USER, "", rest[0].at), *rest]
        return Transcript(rest, self.recalled)


def parse(written: str | Iterable[str]) -> Transcript:
    """The transcript in a file of either program, given whole or as its lines.

    Lines that are cut or unknown are passed over.
    """
    transcript = Transcript()
    # Only a newline ends a line: JSON may hold other separators as they are.
    lines = io.StringIO(written, newline="\n") if isinstance(written, str) else written
    for record in filter(None, map(parse_object, lines)):
        at = str(record.get("timestamp") or "")
        payload = record.get("payload")
        if not isinstance(payload, dict):
            _claude(transcript, record, at)
        elif record.get("type") == "response_item":
            _codex(transcript, payload, at)
    return transcript


def instant_of(at: str) -> str:
    """The instant in an `at`, without its number."""
    return at.partition(_NUMBERED)[0]


def own_words(text: str) -> str:
    """A message without what memory or the program put into it; "" when nothing remains."""
    text = _MEMORY_LINE.sub("", _BLOCK.sub("", _REMINDER.sub("", text))).strip()
    return "" if _NOT_SAID.match(text) else text


def _claude(transcript: Transcript, record: Mapping[str, Any], at: str) -> None:
    if record.get("isSidechain"):
        return
    attachment, message = record.get("attachment"), record.get("message")
    if isinstance(attachment, dict) and attachment.get("type") == "hook_additional_context":
        _recall(transcript, _texts(attachment.get("content")))
    if record.get("type") not in tuple(Speaker) or not isinstance(message, dict):
        return
    for part in _parts(message.get("content")):
        _note_claude_tool(transcript, part)
    if not any(record.get(mark) for mark in _NOT_OF_THE_CONVERSATION):
        _say(transcript, record["type"], message.get("content"), at)


def _note_claude_tool(transcript: Transcript, part: Mapping[str, Any]) -> None:
    calls = transcript.memory_calls
    if part.get("type") == "tool_use" and _MEMORY_TOOL.search(str(part.get("name"))):
        calls.add(str(part.get("id")))
    if part.get("type") == "tool_result" and str(part.get("tool_use_id")) in calls:
        transcript.recalled += _texts(part.get("content"))


def _codex(transcript: Transcript, payload: Mapping[str, Any], at: str) -> None:
    kind, call = str(payload.get("type")), str(payload.get("call_id"))
    called = " ".join(str(payload.get(key)) for key in ("namespace", "name", "input"))
    if kind == "message" and payload.get("role") == "developer":
        _recall(transcript, _texts(payload.get("content")))
    elif kind == "message":
        _say(transcript, str(payload.get("role")), payload.get("content"), at)
    elif kind.endswith("_call") and _MEMORY_TOOL.search(called):
        transcript.memory_calls.add(call)
    elif kind.endswith("_call_output") and call in transcript.memory_calls:
        transcript.recalled += _texts(payload.get("output"))


def _say(transcript: Transcript, speaker: str, content: object, at: str) -> None:
    if speaker not in tuple(Speaker):
        return
    parts = [own_words(text) for text in _texts(content)]
    text = "\n".join(filter(None, parts))
    if text:
        transcript.said.append(Utterance(Speaker(speaker), text, _later(transcript.said, at)))


def _later(said: Sequence[Utterance], at: str) -> str:
    """An instant, later than everything said before it."""
    last = said[-1].at if said else ""
    return at if at > last else f"{instant_of(last)}{_NUMBERED}{len(said) + 1:06}"


def _recall(transcript: Transcript, texts: Iterable[str]) -> None:
    transcript.recalled += [text for text in texts if MEMORY_TITLE in text]


def _parts(content: object) -> Iterator[dict[str, Any]]:
    if isinstance(content, list):
        yield from (part for part in content if isinstance(part, dict))


def _texts(content: object) -> list[str]:
    """Every text of a message's content, whichever way it is written."""
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        plain = [part for part in content if isinstance(part, str)]
        return plain + [str(part["text"]) for part in _parts(content) if "text" in part]
    return _texts(content.get("content")) if isinstance(content, dict) else []
