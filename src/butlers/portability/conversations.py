"""Read conversations as ChatGPT and Claude export them.

Their formats change without notice: unknown keys are ignored, and a conversation that cannot be
read does not stop the import.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from butlers.llm.envelopes import mapping
from butlers.sessions.privacy import ANY_SESSION, PrivacyRules
from butlers.sessions.private_turns import redact
from butlers.sessions.transcripts import Speaker, Transcript, parse

_SPEAKERS = {"user": Speaker.USER, "human": Speaker.USER, "assistant": Speaker.AGENT}


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation: its id in the other product, its title, and what was said."""

    id: str
    title: str
    said: Transcript


class Unreadable(ValueError):
    """An item that cannot be read or is left out; the message says why."""


def read(source: str, exported: Any, rules: PrivacyRules = ANY_SESSION) -> Conversation:
    """Read a conversation of ChatGPT or Claude without what is private in it."""
    if not isinstance(exported, dict):
        raise Unreadable("it is not a JSON object")
    id = str(exported.get("conversation_id") or exported.get("id") or exported.get("uuid") or "")
    if not id:
        raise Unreadable("it has no id")
    messages = _chatgpt(exported) if source == "chatgpt" else _claude(exported)
    title = str(exported.get("title") or exported.get("name") or "")
    lines = [json.dumps(message) for message in messages]
    said = parse(redact(lambda: lines, rules))
    if not said.said:
        raise Unreadable("nothing in it may be read" if lines else "it says nothing")
    return Conversation(id, title, said)


def _chatgpt(conversation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of the current branch, the first one first."""
    nodes = conversation.get("mapping")
    if not isinstance(nodes, dict):
        raise Unreadable("it has no mapping of messages")
    leaves = [
        id for id, node in nodes.items() if isinstance(node, dict) and not node.get("children")
    ]
    branch: dict[str, dict[str, Any]] = {}
    id = conversation.get("current_node")
    if id not in nodes:
        id = (leaves or list(nodes) or [None])[-1]
    while isinstance(nodes.get(id), dict) and id not in branch:
        branch[str(id)] = nodes[id]
        id = nodes[id].get("parent")
    for node in reversed(branch.values()):
        message = mapping(node.get("message"))
        if not mapping(message.get("metadata")).get("is_visually_hidden_from_conversation"):
            role = mapping(message.get("author")).get("role")
            parts = mapping(message.get("content")).get("parts") or ()
            text = "\n".join(part for part in parts if isinstance(part, str))
            yield from _message(role, text, message.get("create_time"))


def _claude(conversation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    messages = conversation.get("chat_messages")
    if not isinstance(messages, list):
        raise Unreadable("it has no chat_messages")
    for message in map(mapping, messages):
        parts = map(mapping, message.get("content") or ())
        texts = [str(part.get("text") or "") for part in parts if part.get("type") == "text"]
        text = "\n".join(filter(None, texts)) or str(message.get("text") or "")
        yield from _message(message.get("sender"), text, message.get("created_at"))


def _message(role: Any, text: str, at: Any) -> Iterator[dict[str, Any]]:
    """Yield a message in the form of a transcript, if the user or the agent said something."""
    speaker = _SPEAKERS.get(str(role))
    if speaker is not None and text.strip():
        yield {"type": speaker, "message": {"content": text}, "timestamp": _instant(at)}


def _instant(at: Any) -> str:
    """Format an instant, given in seconds or as text, as transcripts do; "" if there is none."""
    try:
        if isinstance(at, int | float):
            return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
        return datetime.fromisoformat(str(at)).astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return ""
