"""Convert values to JSON, shorten results, and bound the depth of JSON from others."""

import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID

EXCERPT = 2_000
"""How many characters of a content a list shows; reading one memory returns all of it."""

DEEPEST = 64
"""How deep JSON from others may be nested, since it is embedded in ours."""
TOO_DEEP = "nested too deeply to be shown"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]|[^"\[\]{}]+')

_WITHHELD = frozenset({"embedding", "search_vector"})
"""Columns that no result carries, should a statement ever select them."""
# Columns that repeat another one in other words, or that only jobs need.
_INTERNAL = frozenset(
    {"tenant_id", "confidence", "decay_rate", "validity", "consolidated", "retry_count"}
    | {"last_error", "source_butler", "reference_count", "last_referenced_at", "signals"}
    | {"origin", "trust", "stored_by", "quarantined", "confidence_floor", "agent", "accepted_by"}
)
_DIGITS = 4


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row to JSON values, at every depth: ids to text, times to ISO 8601."""
    return {str(k): json_value(inner) for k, inner in row.items() if k not in _WITHHELD}


def json_value(value: Any) -> Any:
    """Convert a value to one that JSON can hold."""
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
    """Whether lists and objects are nested deeper than `most`."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        inner = [outer.values() if isinstance(outer, dict) else outer for outer in level]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
    return bool(level)


def shallow_json(text: str) -> Any:
    """Parse JSON with `TOO_DEEP` for what is too deep; it is cut first, as the parser recurses."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return json.loads(text)
    parts, depth = [], 0
    for token in _TOKEN.findall(text):
        opens, closes = token in ("[", "{"), token in ("]", "}")
        depth -= closes
        if depth < DEEPEST or (depth == DEEPEST and not opens and not closes):
            parts.append(token)
        elif depth == DEEPEST and opens:
            parts.append(json.dumps(TOO_DEEP))
        depth += opens
    return json.loads("".join(parts))


def brief(result: Any) -> Any:
    """Shorten rows: no empty or internal columns, rounded numbers, times without fractions."""
    if isinstance(result, list):
        return [_brief_row(row, EXCERPT) for row in result]
    return _brief_row(result) if isinstance(result, dict) else result


def _brief_row(row: dict[str, Any], excerpt: int | None = None) -> dict[str, Any]:
    shown = {k: v for k, v in row.items() if v not in (None, [], {}) and k not in _INTERNAL}
    for key, value in shown.items():
        if isinstance(value, float):
            shown[key] = round(value, _DIGITS)
        elif key == "score_parts":
            shown[key] = {part: round(score, _DIGITS) for part, score in value.items()}
        elif key.endswith("_at"):
            shown[key] = datetime.fromisoformat(value).replace(microsecond=0).isoformat()
    _drop_repeated(shown)
    if excerpt and len(content := shown.get("content", "")) > excerpt:
        shown |= {"content": content[:excerpt], "content_length": len(content)}
    return shown


def _drop_repeated(shown: dict[str, Any]) -> None:
    if shown.get("last_confirmed_at") == shown.get("created_at"):
        shown.pop("last_confirmed_at", None)  # storing it was the only confirmation
    if "score_parts" in shown:
        shown.pop("effective_confidence", None)  # the parts have it


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
