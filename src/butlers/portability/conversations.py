"""Conversations as ChatGPT and Claude export them: who said what, and when.

Their formats are nobody's promise: keys that are not known are passed over, and a conversation
that cannot be read is told of and keeps no other from being read.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from butlers.sessions.transcripts import Speaker, Transcript, parse

_SPEAKERS = {
    "user": Speaker.USER,
    "human": Speaker.USER,
    "assistant": Speaker.AGENT,
    "tool": None,
    "system": None,
}


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation: what it is known by where it was held, its title, and what was said."""

    id: str
    title: str
    said: Transcript


class Unreadable(ValueError):
    """A conversation that cannot be read; the words say why."""


def read(source: str, told: Any) -> Conversation:
    """A conversation of ChatGPT or Claude."""
    if not isinstance(told, Mapping):
        raise Unreadable("it is no object")
    id = str(told.get("conversation_id") or told.get("id") or told.get("uuid") or "")
    if not id:
        raise Unreadable("it has no id")
    messages = _chatgpt(told) if source == "chatgpt" else _claude(told)
    lines = [json.dumps(one) for one in messages]
    return Conversation(id, str(told.get("title") or told.get("name") or ""), parse(lines))


def _chatgpt(told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages on the way to where a conversation stands now, the first one first."""
    mapping = told.get("mapping")
    if not isinstance(mapping, Mapping):
        raise Unreadable("it has no mapping of messages")
    way: list[Mapping[str, Any]] = []
    place, seen = told.get("current_node") or _last_leaf(mapping), set[str]()
    while isinstance(mapping.get(place), Mapping) and place not in seen:
        seen.add(str(place))
        way.append(mapping[place])
        place = mapping[place].get("parent")
    for node in reversed(way):
        message = node.get("message")
        if isinstance(message, Mapping) and not _is_hidden(message):
            author, content = message.get("author"), message.get("content")
            role = author.get("role") if isinstance(author, Mapping) else ""
            parts = content.get("parts") if isinstance(content, Mapping) else None
            texts = [one for one in parts or () if isinstance(one, str)]
            yield from _message(role, "\n".join(texts), message.get("create_time"))


def _last_leaf(mapping: Mapping[str, Any]) -> str | None:
    leaves = [
        id for id, node in mapping.items() if isinstance(node, Mapping) and not node.get("children")
    ]
    return leaves[-1] if leaves else None


def _is_hidden(message: Mapping[str, Any]) -> bool:
    metadata = message.get("metadata")
    return isinstance(metadata, Mapping) and bool(
        metadata.get("is_visually_hidden_from_conversation")
    )


def _claude(told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    messages = told.get("chat_messages")
    if not isinstance(messages, list):
        raise Unreadable("it has no chat_messages")
    for message in messages:
        if isinstance(message, Mapping):
            texts = [
                str(part["text"])
                for part in message.get("content") or ()
                if isinstance(part, Mapping) and part.get("type") == "text" and part.get("text")
            ]
            text = "\n".join(texts) or str(message.get("text") or "")
            yield from _message(message.get("sender"), text, message.get("created_at"))


def _message(role: Any, text: str, at: Any) -> Iterator[dict[str, Any]]:
    """A message as transcripts are read, where somebody said something."""
    speaker = _SPEAKERS.get(str(role))
    if speaker is not None and text.strip():
        yield {"type": speaker, "message": {"content": text}, "timestamp": _instant(at)}


def _instant(at: Any) -> str:
    """An instant as transcripts write it, from seconds or from text; "" where there is none."""
    try:
        if isinstance(at, int | float):
            return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
        return datetime.fromisoformat(str(at)).astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return ""
