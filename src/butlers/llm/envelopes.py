"""Read JSON of other programs, which may contain anything."""

import json
import math
from contextlib import suppress
from typing import Any, NoReturn

MAX_COUNT = 2**53
"""Larger numbers of tokens are ignored."""


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object; None where the text is none."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text, parse_constant=_refuse)
        return value if isinstance(value, dict) else None
    return None


def json_text(value: object) -> str:
    """Write a value as JSON; ValueError when it cannot be."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def mapping(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_of(value: object) -> str:
    """Return the value if it is text, else the empty string."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """Return the value if it is a plausible number of tokens, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def total(*values: object) -> int | None:
    """Add the plausible counts; None when there is none."""
    counts = [known for known in map(count, values) if known is not None]
    return sum(counts) if counts else None


def amount(value: object) -> float | None:
    """Return the value if it is a plausible sum of money, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_COUNT and math.isfinite(value) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
