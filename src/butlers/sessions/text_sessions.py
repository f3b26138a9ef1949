"""Sessions that agents hand over as text: the messages so far, or what is new in them.

They lie in the spool as a transcript of our own: one message a line, with timestamp, role, text and
tool calls. What is private is left out before it is written. The hook imports this.
"""

import json
import os
from datetime import UTC, datetime
from typing import Any

from butlers.sessions import spool
from butlers.sessions.privacy import find_rules
from butlers.sessions.private_turns import redact
from butlers.sessions.prompts import lines_of

Project = dict[str, Any] | None


def write_messages(home: str, butler: str, event: dict[str, Any], project: Project) -> str:
    """Write the messages of an event, and those before it, into a file; return its path."""
    session, directory = str(event.get("session_id")), f"{home}/{spool.DIRECTORY}"
    if not spool.is_word(session) or not isinstance(event["messages"], list):
        raise OSError("this is no session that can be stored")
    os.makedirs(directory, 0o700, exist_ok=True)
    held = spool.read_entry(spool.under_way_file(home, butler, session)).get("held")
    before = f"{directory}/{os.path.basename(held or '')}"
    kept = map(json.loads, lines_of(before)) if os.path.isfile(before) else ()
    lines = _lines([*kept, *map(_plain, event["messages"])])
    if not lines:
        raise OSError("nothing was said")
    rules = find_rules(home, session, str(event.get("cwd") or ""), project)
    path = f"{directory}/{butler}~{session}~{spool.fresh()}{spool.HELD}"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.writelines(dict.fromkeys(redact(lambda: lines, rules)))
    return path


def _lines(messages: list[dict[str, Any]]) -> list[str]:
    """Order messages by time; one that is there twice is known by its id, or by time and text."""
    known = {one.get("id") or (one["timestamp"], one["role"], one["text"]): one
             for one in messages if one}  # fmt: skip
    ordered = sorted(known.values(), key=lambda one: str(one.get("timestamp")))
    return [json.dumps(message) + "\n" for message in ordered]


def _plain(message: Any) -> dict[str, Any]:
    """Return a message in our own form; {} if it says nothing."""
    if not isinstance(message, dict) or not isinstance(message.get("text"), str):
        return {}
    at, kept = message.get("time"), {name: message.get(name) for name in ("id", "calls")}
    if isinstance(at, int | float):
        at = datetime.fromtimestamp(at / 1_000, UTC).isoformat("T", "milliseconds")
    about = {"timestamp": str(at or ""), "role": str(message.get("role")), "text": message["text"]}
    return about | {name: value for name, value in kept.items() if value}
