"""Values as JSON can carry them, and briefly; schemas of those that others send."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID

EXCERPT = 2_000
"""How much of a text is told of one among several; who reads one memory is told all of it."""

DEEPEST = 64
"""How deep a document may go that others read with ours around it; theirs may go half as deep."""
TOO_DEEP = "nested too deeply to be shown"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]|[^"\[\]{}]+')

_WITHHELD = frozenset({"embedding", "search_vector"})
"""What no answer carries, should a statement ever select it."""
# Columns that say what another says for readers, or what only the workers need.
_INTERNAL = frozenset(
    {"tenant_id", "confidence", "decay_rate", "validity", "consolidated", "retry_count"}
    | {"confidence_floor"}
    | {"last_error", "source_butler", "reference_count", "last_referenced_at", "signals"}
    | {"origin", "trust", "stored_by", "quarantined"}
)
_DIGITS = 4


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with ids as texts and instants in ISO 8601, at every depth."""
    return {str(k): json_value(inner) for k, inner in row.items() if k not in _WITHHELD}


def json_value(value: Any) -> Any:
    """A value as JSON can carry it."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return as_json(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(inner) for inner in value]
    return value


def is_deeper(value: Any, most: int) -> bool:
    """Whether lists and objects stand within one another more than so many times."""
    level = [value]
    for _ in range(most):
        level = [one for outer in level if isinstance(outer, dict | list) for one in _inner(outer)]
    return any(isinstance(one, dict | list) for one in level)


def _inner(outer: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return outer.values() if isinstance(outer, dict) else outer


def shallow_json(text: str) -> Any:
    """What a JSON text says, with words in place of what lies too deep in it to be passed on.

    Cut before it is read: reading takes a call for each step down, and there are only so many.
    """
    if text.count("{") + text.count("[") <= DEEPEST:
        return json.loads(text)
    kept, depth = [], 0
    for token in _TOKEN.findall(text):
        opens, closes = token in ("[", "{"), token in ("]", "}")
        depth -= closes
        if depth < DEEPEST or (depth == DEEPEST and not opens and not closes):
            kept.append(token)
        elif depth == DEEPEST and opens:
            kept.append(json.dumps(TOO_DEEP))
        depth += opens
    return json.loads("".join(kept))


def brief(told: Any) -> Any:
    """Rows without what is empty or internal, numbers and instants no longer than anybody reads."""
    if isinstance(told, list):
        return [_cut(_brief_row(one)) for one in told]
    return _brief_row(told) if isinstance(told, dict) else told


def _brief_row(told: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: _shorter(key, value)
        for key, value in told.items()
        if value not in (None, [], {}) and key not in _INTERNAL
    }
    if kept.get("last_confirmed_at") == kept.get("created_at"):
        kept.pop("last_confirmed_at", None)  # storing it was the only confirmation
    return kept


def _cut(row: dict[str, Any]) -> dict[str, Any]:
    content = row.get("content", "")
    if len(content) <= EXCERPT:
        return row
    return {**row, "content": content[:EXCERPT], "content_length": len(content)}


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with these properties, all of them, and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _shorter(key: str, value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if key == "score_parts":
        return {part: round(score, _DIGITS) for part, score in value.items()}
    if key.endswith("_at"):
        return datetime.fromisoformat(value).replace(microsecond=0).isoformat()
    return value
