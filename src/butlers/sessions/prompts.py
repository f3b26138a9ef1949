"""Find the user's own prompts among the records of a transcript; hooks import this."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from butlers.kernel.private_tags import has_private
from butlers.sessions.agent_records import as_claude

# How messages begin that programs write in the user's name.
NOT_SAID = (
    *("<local-command-", "<bash-", "<task-notification", "<environment_context"),
    *("<user_instructions", "<skill", "<turn_aborted", "<subagent_notification"),
    *("[Request interrupted", "# AGENTS.md instructions", "Caveat: The messages below"),
)
# Reminders, and the tags around a command with its arguments.
_ADDED = r"(?s)<system-reminder>.*?(?:</system-reminder>|\Z)|</?command-[a-z]+>"
MAX_LINE_BYTES = 32 * 1024**2
NOT_OF_THE_CONVERSATION = ("isMeta", "isCompactSummary", "isApiErrorMessage", "isSidechain")


def lines_of(transcript: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the lines of a transcript; only a newline ends a line."""
    with open(transcript, "rb") as stream:
        for line in iter(partial(stream.readline, MAX_LINE_BYTES), b""):
            yield line.decode("utf-8", "replace")


def parse_record(line: str | bytes) -> dict[str, Any]:
    """Parse a line of any agent's transcript into Claude Code's form; {} if it is damaged."""
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
        return as_claude(record) if isinstance(record, dict) else {}
    return {}


def may_hold_prompt(line: str) -> bool:
    """Whether a line is worth parsing to look for a prompt."""
    return '"user"' in line or "queued_command" in line


def prompt_of(record: dict[str, Any]) -> str | None:
    """Return what the user typed, if the record is a prompt; None for every other record."""
    message = record.get("payload")
    if isinstance(message, dict):
        is_prompt = record.get("type") == "response_item" and message.get("type") == "message"
        return _typed_text(message) if is_prompt and message.get("role") == "user" else None
    if any(record.get(mark) for mark in NOT_OF_THE_CONVERSATION):
        return None
    attachment = record.get("attachment")
    if isinstance(attachment, dict) and attachment.get("type") == "queued_command":
        return _typed_text({"content": attachment.get("prompt")})
    message = record.get("message")
    is_prompt = record.get("type") == "user" and isinstance(message, dict)
    return _typed_text(message) if is_prompt and isinstance(message, dict) else None


def texts_of(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from texts_of(member)


def _typed_text(message: dict[str, Any]) -> str | None:
    content = message.get("content")
    parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    own = [_own_text(text) for text in texts if isinstance(text, str)]
    return "\n".join(filter(None, own)) or None


def _own_text(text: str) -> str:
    """Return a text without what its program added; "" if the program wrote it."""
    text = re.sub(_ADDED, "\n", text).strip() if "<" in text else text.strip()
    return "" if text.startswith(NOT_SAID) and not has_private(text) else text
