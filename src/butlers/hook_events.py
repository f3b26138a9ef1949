"""Read the events of agents that name them, or their fields, otherwise than Claude Code does.

The tables are in `hook_events.json`: our names of events (any other differs in the case of its
first letter at most) and fields; the field that tells what an event without a name is; in which
field an agent takes a context, if not as Claude Code does (transcripts of those cannot be read);
and the events with which it takes none.
"""

import json
import os
from typing import Any

from butlers.sessions.agent_records import without_context


def translate(agent: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return an event with our names; its own name, and where its answer goes, beside them."""
    with open(os.path.splitext(__file__)[0] + ".json", encoding="utf-8") as file:
        tables = json.load(file)
    event, unnamed = _renamed(given, tables), tables["unnamed"]
    native = event.get("hook_event_name")
    native = str(native or next((unnamed[each] for each in unnamed if each in given), ""))
    # Cline puts what an event is about into a field of its name.
    event |= _renamed(event.get(native[:1].lower() + native[1:]), tables)
    name = tables["names"].get(native, native[:1].upper() + native[1:])
    event |= {"hook_event_name": name, "native_name": native}
    event["context_field"] = tables["contexts"].get(agent)
    event["is_unheard"] = name in tables["unheard"].get(agent, ())
    _read_prompt(event)
    return event


def _renamed(fields: Any, tables: dict[str, Any]) -> dict[str, Any]:
    own = tables["fields"]
    given = fields if isinstance(fields, dict) else {}
    return {own.get(field, field): value for field, value in given.items()}


def _read_prompt(event: dict[str, Any]) -> None:
    """Read the words and the directory of an event; a tool's answer is no prompt."""
    if isinstance(roots := event.get("workspace_roots"), list) and roots:
        event.setdefault("cwd", roots[0])
    if isinstance(prompt := event.get("prompt"), str):
        event["prompt"] = without_context(prompt)
        if not event["prompt"] and event["hook_event_name"] == "UserPromptSubmit":
            event["hook_event_name"] = ""
    if event["context_field"]:
        said = {"user": event.get("prompt"), "assistant": event.get("text")}
        at = event.get("timestamp")
        event["messages"] = [{"role": role, "text": said[role], "time": at} for role in said]
