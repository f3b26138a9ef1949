"""Stored text made fit to be looked at: nothing in it hides, reorders or runs."""

import math
import re
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from butlers.kernel.text import replace_surrogates

_MARK = "\ufffd"
# Bidirectional controls show text in another order than it is read; tags, invisible operators and
# the soft hyphen hide text. Joiners (200C, 200D) stay: emoji and Persian are written with them.
_HIDING = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_SPANS = (
    (365 * 86_400, "year"),
    (30 * 86_400, "month"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
)


def visible(text: str) -> str:
    """The text with what would hide or reorder it made visible, and control characters too."""
    lines = _BREAKS.sub("\n", replace_surrogates(text))
    return _CONTROL.sub(_picture, _HIDING.sub(_MARK, lines))


def finalized(value: Any) -> Any:
    """What a template writes of a value: every text visible, none for nothing."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def cut(text: str, length: int) -> str:
    """The beginning of a text on one line."""
    line = " ".join(visible(text).split())
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def instant(value: datetime | str | None) -> datetime | None:
    """A stored instant, in UTC."""
    if value is None:
        return None
    read = datetime.fromisoformat(value) if isinstance(value, str) else value
    return read.astimezone(UTC)


def distance(value: datetime | str | None, now: datetime) -> str:
    """How long ago something was, or how far ahead it is."""
    at = instant(value)
    if at is None:
        return "never"
    seconds = (at - now).total_seconds()
    if abs(seconds) < 60:  # noqa: PLR2004 - a minute
        return "just now" if seconds <= 0 else "in a moment"
    span = span_of(abs(seconds))
    return f"{span} ago" if seconds < 0 else f"in {span}"


def span_of(seconds: float) -> str:
    """A length of time in its largest unit."""
    if math.isinf(seconds):
        return "forever"
    for size, name in _SPANS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds:.2g} seconds"


def _picture(match: re.Match[str]) -> str:
    """The picture Unicode has for a control character; those of C1 have none."""
    code = ord(match.group())
    if code == 0x7F:  # noqa: PLR2004 - delete
        return "\u2421"
    return chr(0x2400 + code) if code < 0x20 else _MARK  # noqa: PLR2004 - the first printable one
