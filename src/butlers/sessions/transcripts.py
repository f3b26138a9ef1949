"""Read what was said in a session from the files that agents write.

Only messages of the user and the agent count as said: not what hooks injected, tools returned or
the programs noted for themselves. The agent's tool calls are listed apart, memory tools excepted:
what memory returned is collected, to recognise it when repeated.
"""

import io
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from butlers.llm.envelopes import mapping, parse_object
from butlers.sessions import tool_calls
from butlers.sessions.pasted import mark_pasted
from butlers.sessions.private_turns import redact
from butlers.sessions.prompts import NOT_OF_THE_CONVERSATION, NOT_SAID, lines_of, parse_record
from butlers.sessions.tool_calls import ToolCall

MEMORY_TITLE = "# Memory Context"
"""The first line of every block of memories, wherever it is injected."""

_REMINDER = re.compile(r"<(system-reminder|ide_\w+)>.*?(?:</\1>|\Z)", re.DOTALL)
# What an editor adds before what its user asks Codex.
_EDITOR = re.compile(r"(?s)\A\s*# (?:Context from my|Files mentioned).*?## My request for Codex:")
_BLOCK = re.compile(
    rf"{re.escape(MEMORY_TITLE)}[ \t]*\n(?:What follows is data[^\n]*\n)?"
    r"(?:(?:##? |- )[^\n]*(?:\n|\Z)|[ \t]*\n)*"
)
# A line of such a block, by itself.
_MEMORY_LINE = re.compile(
    r"^- (?:\[[^\n]*\] \[[^\n]*\]: [^\n]* \(confidence: [\d.]+(?:, [^()\n]*)?\)"
    r"|[^\n]* \(maturity: [^\n]*effectiveness: [\d.]+(?:, [^()\n]*)?\))[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
# Messages of the programs in the user's name.
_NOT_SAID = (*NOT_SAID, "<command-")
_NUMBERED = " #"
_HASH = re.compile(r"[0-9a-f]{8,128}")
# Codex writes its servers' names with underscores, and may name a tool only inside a script.
_MEMORY_TOOL = re.compile(r"(?:memory|entity)_[a-z]+|butlers[-_]")


class Speaker(StrEnum):
    """Who said something."""

    USER = "user"
    AGENT = "assistant"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One message; `at` is its instant as the file writes it, which sorts as text.

    Where instants are missing or equal, a number is appended: each `at` is later than the last.
    """

    speaker: Speaker
    text: str
    at: str = ""


@dataclass(slots=True)
class Transcript:
    """What was said in a session, and what memory returned in between."""

    said: list[Utterance] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    pasted: list[str] = field(default_factory=list, compare=False)
    """What the agent's records say was pasted."""
    memory_calls: set[str] = field(default_factory=set, compare=False)
    """The ids of calls of memory tools, whose results are recalled."""
    open_calls: dict[str, ToolCall] = field(default_factory=dict, compare=False)
    """The calls without a result so far, by id."""
    written_again: set[str] = field(default_factory=set, compare=False)
    """The parts that were read of messages that are written several times."""

    def after(self, instant: str) -> "Transcript":
        """Return what was said after an instant; an agent's answer gets an empty question."""
        rest = self.said[bisect_right(self.said, instant, key=lambda utterance: utterance.at) :]
        if instant and rest and rest[0].speaker is Speaker.AGENT:
            rest = [Utterance(Speaker.USER, "", rest[0].at), *rest]
        return Transcript(rest, self.recalled, [call for call in self.calls if call.at > instant])

    def exchanges(self) -> Iterator[tuple[Utterance, Sequence[Utterance]]]:
        """Yield each turn of the user with the agent's answers to it."""
        starts = [index for index, one in enumerate(self.said) if one.speaker is Speaker.USER]
        for start, end in pairwise([*starts, len(self.said)]):
            yield self.said[start], self.said[start + 1 : end]

    def between(self, after: str, through: str) -> "Transcript":
        """Return what was said after one instant and until another; "" is the end."""
        rest = self.after(after)
        if through:
            end = bisect_right(rest.said, through, key=lambda utterance: utterance.at)
            rest.said = rest.said[:end]
            rest.calls = [call for call in rest.calls if call.at <= through]
        return rest


def parse(written: str | Iterable[str], pasted: Sequence[str] = ()) -> Transcript:
    """Read what is not private of a transcript, as one text or as lines; ignore damaged lines.

    `pasted`: what the agent's history says was pasted.
    """
    transcript = Transcript(pasted=list(pasted))
    # Only a newline ends a line: JSON may hold other separators as they are.
    lines = list(io.StringIO(written, newline="\n") if isinstance(written, str) else written)
    for record in filter(None, map(parse_record, redact(lambda: lines))):
        at, payload = str(record.get("timestamp") or ""), record.get("payload")
        if not isinstance(payload, dict):
            _claude(transcript, record, at)
        elif record.get("type") == "response_item":
            _codex(transcript, payload, at)
    return transcript


def instant_of(at: str) -> str:
    """Return the instant in an `at`, without its number."""
    return at.partition(_NUMBERED)[0]


def utc_instant(text: object) -> datetime | None:
    """Parse an instant in ISO 8601; None if it is not one or has no offset."""
    with suppress(ValueError, OverflowError):
        instant = datetime.fromisoformat(str(text))
        return instant.astimezone(UTC) if instant.tzinfo else None
    return None


def own_words(text: str) -> str:
    """Return a message without what memory or the program put into it; "" if nothing is left."""
    text = _EDITOR.sub("", _REMINDER.sub("", text))
    text = _MEMORY_LINE.sub("", _BLOCK.sub("", text)).strip()
    return "" if text.startswith(_NOT_SAID) else text


def _claude(transcript: Transcript, record: Mapping[str, Any], at: str) -> None:
    if record.get("isSidechain"):
        return
    attachment, message = mapping(record.get("attachment")), record.get("message")
    if attachment.get("type") == "hook_additional_context":
        _recall(transcript, _texts(attachment.get("content")))
    transcript.pasted += pasted_texts(record) + pasted_texts(attachment)
    if attachment.get("type") == "queued_command":
        _say(transcript, Speaker.USER, attachment.get("prompt"), at)
    if record.get("type") not in tuple(Speaker) or not isinstance(message, dict):
        return
    content = _unread(transcript, record.get("once"), message.get("content"))
    for part in _parts(content):
        _use_tool(transcript, part, at)
    if not any(record.get(mark) for mark in NOT_OF_THE_CONVERSATION):
        _say(transcript, record["type"], content, at)


def _unread(transcript: Transcript, once: object, content: object) -> object:
    """Return what is new in a message that is written several times, each with more in it."""
    if not once:
        return content
    names = ("id", "tool_use_id", "text")
    parts = {f"{once} {[part.get(name) for name in names]}": part for part in _parts(content)}
    unread = [part for key, part in parts.items() if key not in transcript.written_again]
    transcript.written_again |= parts.keys()
    return unread


def _use_tool(transcript: Transcript, part: Mapping[str, Any], at: str) -> None:
    kind, name = part.get("type"), str(part.get("name"))
    call = str(part.get("id") or part.get("tool_use_id"))
    if kind == "tool_use" and _MEMORY_TOOL.search(name):
        transcript.memory_calls.add(call)
    elif kind == "tool_use":
        _open(transcript, call, name, part.get("input"), at)
    elif kind == "tool_result" and call in transcript.memory_calls:
        transcript.recalled += _texts(part.get("content"))
    elif kind == "tool_result":
        _close(transcript, call, "\n".join(_texts(part.get("content"))), part.get("is_error"))


def _codex(transcript: Transcript, payload: Mapping[str, Any], at: str) -> None:
    kind, call = str(payload.get("type")), str(payload.get("call_id"))
    called = " ".join(str(payload.get(key)) for key in ("namespace", "name", "input"))
    if kind == "message" and payload.get("role") == "developer":
        _recall(transcript, _texts(payload.get("content")))
    elif kind == "message":
        _say(transcript, str(payload.get("role")), payload.get("content"), at)
    elif kind.endswith("_call") and _MEMORY_TOOL.search(called):
        transcript.memory_calls.add(call)
    elif kind.endswith("_call"):
        given = payload.get("arguments") or payload.get("input") or payload.get("action")
        _open(transcript, call, str(payload.get("name") or kind), given, at)
    elif kind.endswith("_call_output") and call in transcript.memory_calls:
        transcript.recalled += _texts(payload.get("output"))
    elif kind.endswith("_call_output"):
        _close(transcript, call, "\n".join(_texts(payload.get("output"))), None)


def _say(transcript: Transcript, speaker: str, content: object, at: str) -> None:
    if speaker not in tuple(Speaker):
        return
    text = "\n".join(filter(None, map(own_words, _texts(content))))
    if text and speaker == Speaker.USER:
        text = mark_pasted(text, transcript.pasted)
    if text:
        said = transcript.said
        last = said[-1].at if said else ""
        later = at if at > last else f"{instant_of(last)}{_NUMBERED}{len(said) + 1:06}"
        said.append(Utterance(Speaker(speaker), text, later))


def _open(transcript: Transcript, call: str, name: str, given: object, at: str) -> None:
    last = transcript.said[-1].at if transcript.said else ""
    summary = tool_calls.summary_of(given)
    transcript.open_calls[call] = ToolCall(name, summary, at=max(at, last))


def _close(transcript: Transcript, call: str, output: str, failed: object) -> None:
    opened = transcript.open_calls.pop(call, None)
    if opened is not None:
        transcript.calls.append(tool_calls.with_result(opened, output, failed))


def _recall(transcript: Transcript, texts: Iterable[str]) -> None:
    transcript.recalled += [text for text in texts if MEMORY_TITLE in text]


def pasted_texts(record: Mapping[str, Any], cache: Path | None = None) -> list[str]:
    """Return the texts that a record says were pasted: itself, or by a file of the cache."""
    found = record.get("pastedContents")
    texts = []
    for one in _parts(list(found.values()) if isinstance(found, dict) else found):
        file = cache and _HASH.fullmatch(str(one.get("contentHash"))) and one["contentHash"]
        with suppress(OSError):
            if cache and file:
                texts.append((cache / f"{file}.txt").read_text("utf-8", "replace"))
            elif isinstance(one.get("content"), str):
                texts.append(one["content"])
    return texts


def find_pasted(transcript: Path, session: str) -> list[str]:
    """Read what a session's user pasted from Claude Code's history, beside its transcripts."""
    home, found = transcript.parent.parent.parent, list[str]()
    with suppress(OSError):
        for line in lines_of(home / "history.jsonl"):
            if session and f'"{session}"' in line:
                found += pasted_texts(parse_object(line) or {}, home / "paste-cache")
    return found


def _parts(content: object) -> Iterator[dict[str, Any]]:
    if isinstance(content, list):
        yield from (part for part in content if isinstance(part, dict))


def _texts(content: object) -> list[str]:
    """List every text of a message's content, in any of its forms."""
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        plain = [part for part in content if isinstance(part, str)]
        return plain + [str(part["text"]) for part in _parts(content) if "text" in part]
    return _texts(content.get("content")) if isinstance(content, dict) else []
