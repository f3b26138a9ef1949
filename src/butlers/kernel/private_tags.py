"""Text between `<private>` and `</private>`, which is never stored."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from butlers.errors import InvalidInput

_MARK = "private"
# Between backticks the tag is only mentioned.
_TAG = r"(?i)(?<!`)<\s*+(/?)\s*+private\s*+>(?!`)"


def has_private(text: str) -> bool:
    """Whether some of a text is marked as private."""
    return _MARK in text.lower() and any(not tag[1] for tag in re.finditer(_TAG, text))


def without_private(text: str) -> str:
    """Return a text without its private spans; one that is not closed goes on to the end."""
    if not has_private(text):
        return text
    kept, depth, start = list[str](), 0, 0
    for tag in re.finditer(_TAG, text):
        if depth == 0:
            kept.append(text[start : tag.start()])
        depth = max(0, depth - 1) if tag[1] else depth + 1
        start = tag.end()
    if depth == 0:
        kept.append(text[start:])
    return "".join(kept).strip()


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with every text in it changed."""
    if isinstance(value, dict):
        return {key: map_texts(member, change) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(member, change) for member in value]
    return change(value) if isinstance(value, str) else value


def public_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments without private spans; InvalidInput if nothing is left of one."""
    if _MARK not in str(given).lower():
        return dict(given)
    public = {name: map_texts(value, without_private) for name, value in given.items()}
    for name, value in given.items():
        if isinstance(value, str) and value.strip() and not public[name]:
            raise InvalidInput(f"{name}: all of it is marked as private; nothing was stored")
    return public
