"""Rows as JSON can carry them."""

from collections.abc import Mapping
from datetime import date
from typing import Any
from uuid import UUID

_WITHHELD = frozenset({"embedding", "search_vector"})
"""What no answer carries, should a statement ever select it."""


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with ids as texts and instants in ISO 8601, at every depth."""
    return {key: _value(value) for key, value in row.items() if key not in _WITHHELD}


def _value(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(inner) for inner in value]
    return value
