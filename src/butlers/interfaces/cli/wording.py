"""Memories and their lives in words."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

EXCERPT = 280
_YIELDS = {"in_doubt": "in doubt", "outdated_by": "outdated"}


def says(memory: Mapping[str, Any]) -> str:
    """What a memory says, in one sentence; a long one is cut."""
    text = str(memory["content"])
    if memory.get("predicate") is not None:
        text = f"{memory['subject']} · {memory['predicate']}: {text}"
    cut = text if len(text) <= EXCERPT else f"{text[:EXCERPT].rstrip()}…"
    return cut + "".join(f" ({word})" for key, word in _YIELDS.items() if memory.get(key))


def came_of(stored: Mapping[str, Any], kind: str) -> str:
    """What came of storing something."""
    same, replaced = stored.get("confirmed"), stored.get("superseded_id")
    told = [f"{'confirmed' if same and not replaced else 'stored'} {kind} {stored['id']}"]
    if replaced:
        told.append(f", which {'says again what was in' if same else 'replaces'} {replaced}")
    named = (("valid_from", "since"), ("valid_to", "until"), ("expires_at", "which expires on"))
    told += [f", {word} {at[:10]}" for name, word in named if (at := stored.get(name))]
    told.append(f"; secrets masked: {hidden}" if (hidden := stored.get("masked")) else "")
    return "".join(told)


def state(memory: Mapping[str, Any]) -> str:
    """How a memory stands."""
    if "consolidation_status" in memory:
        return str(memory["consolidation_status"])
    alone = "marked by its own author alone" if memory.get("own_marks") else ""
    return ", ".join(filter(None, (str(memory["state"]), memory.get("maturity"), alone)))


def when(instant: str | None) -> str:
    """An instant to the minute, in UTC; nothing for none."""
    return f"{datetime.fromisoformat(instant):%Y-%m-%d %H:%M}" if instant else ""


def times(count: int) -> str:
    """How often, in words."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def size(count: int) -> str:
    """So many bytes, in the unit that suits."""
    for unit, bytes_each in (("GB", 1e9), ("MB", 1e6)):
        if count >= bytes_each:
            return f"{count / bytes_each:.1f} {unit}"
    return f"{count / 1e3:.1f} kB"


def number(value: float | None, digits: int = 2) -> str:
    """A score; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def happened(event_type: str) -> str:
    """What kind of event it was."""
    return event_type.replace("_", " ")


def change(payload: Mapping[str, Any]) -> str:
    """What an event changed from what to what, and what else it tells."""
    moved = [_move("", payload)] if "to" in payload else []
    told = [_as_words(key, value) for key, value in payload.items() if key not in ("from", "to")]
    return "; ".join(part for part in (*moved, *told) if part)


def span(ends: Sequence[str | None]) -> str:
    """Since when and until when something holds."""
    begin, end = ends
    if begin is not None and begin == end:
        return "never"
    told = [f"since {when(begin)}" if begin else "", f"until {when(end)}" if end else ""]
    return " ".join(filter(None, told)) or "at all times"


def plain(value: Any) -> str:
    """A value as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def listed(value: Any) -> str:
    """The same, a line for each of several objects."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return "\n".join("  ".join(plain(one) for one in item.values()) for item in value)
    return plain(value)


def _as_words(key: str, value: Any) -> str:
    name = key.replace("_", " ")
    if key == "window":
        return f"holds: {span(value['from'])} → {span(value['to'])}"
    if isinstance(value, dict) and value.keys() == {"from", "to"}:
        return "" if value["from"] == value["to"] else _move(name, value)
    return "" if value in (None, "", [], {}) else f"{name}: {plain(value)}"


def _move(name: str, ends: Mapping[str, Any]) -> str:
    before, after = (plain(ends.get(end)) for end in ("from", "to"))
    arrow = f"{before} → {after}" if ends.get("from") is not None else f"→ {after}"
    return f"{name}: {arrow}" if name else arrow
