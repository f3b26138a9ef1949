"""Format stored text, times and events for pages."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from butlers.kernel.text import replace_surrogates
from butlers.kernel.word_tables import load_tables

WORDS = load_tables(__file__, "words.toml")
_MARK = "\ufffd"
# Bidirectional controls reorder text; tags, invisible operators and the soft hyphen hide it.
# Joiners (200C, 200D) stay: emoji and Persian are written with them.
_HIDING = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
_SPANS = {365 * _DAY: "year", 30 * _DAY: "month", _DAY: "day", _HOUR: "hour", _MINUTE: "minute"}


def visible(text: str) -> str:
    """Make hidden, reordering and control characters visible."""
    lines = _BREAKS.sub("\n", replace_surrogates(text))
    return _CONTROL.sub(_picture, _HIDING.sub(_MARK, lines))


def finalized(value: Any) -> Any:
    """Prepare a value for a template: hidden characters visible, None empty."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return "" if value is None else value


def cut(text: str, length: int) -> str:
    """Cut a text to one line of this length."""
    line = " ".join(visible(text).split())
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def instant(value: datetime | str | None) -> datetime | None:
    """Read a stored time as UTC."""
    if value is None:
        return None
    read = datetime.fromisoformat(value) if isinstance(value, str) else value
    return read.astimezone(UTC)


def distance(value: datetime | str | None, now: datetime) -> str:
    """Say how long ago a time was, or how far ahead it is."""
    at = instant(value)
    if at is None:
        return "never"
    seconds = (at - now).total_seconds()
    if abs(seconds) < _MINUTE:
        return "just now" if seconds <= 0 else "in a moment"
    span = span_of(abs(seconds))
    return f"{span} ago" if seconds < 0 else f"in {span}"


def span_of(seconds: float) -> str:
    """Format a duration in its largest unit."""
    if math.isinf(seconds):
        return "forever"
    for size, name in _SPANS.items():
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds:.2g} seconds"


def short_number(value: float) -> str:
    """Format a coordinate with one decimal at most."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _picture(match: re.Match[str]) -> str:
    """Return the Unicode picture of a control character; C1 controls have none."""
    code = ord(match.group())
    if code == 0x7F:  # noqa: PLR2004 - delete
        return "\u2421"
    return chr(0x2400 + code) if code < 0x20 else _MARK  # noqa: PLR2004 - the first printable one


_ABOUT = ("subject", "predicate", "canonical_name", "reason", "relation", "effective_confidence")


def event_words(event_type: str) -> str:
    """Name an event, in general by its type."""
    return WORDS["events"].get(event_type) or event_type.replace("_", " ").capitalize()


def changes(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List what an event was about, and what it changed from what to what."""
    about = [name for name in _ABOUT if payload.get(name)]
    fields = [(name.replace("_", " "), _phrase(payload[name])) for name in about]
    if isinstance(payload.get("from"), str) and isinstance(payload.get("to"), str):
        fields.append(("state", f"{payload['from']} → {payload['to']}".replace("_", " ")))
    moved = payload.get("effectiveness_score")
    if isinstance(moved, Mapping) and moved.get("from") != moved.get("to"):
        fields.append(
            ("effectiveness", f"{_phrase(moved.get('from'))} → {_phrase(moved.get('to'))}")
        )
    return fields


def actor_words(actor: str | None) -> str:
    """Name who did it."""
    if not actor:
        return "somebody"
    kind, _, rest = actor.partition(":")
    if kind == "token" and rest:
        return f"an agent (token {rest})"
    if kind == "schedule" and rest:
        return f"the job {rest}"
    return str(WORDS["actors"].get(actor, actor))


def query(values: Mapping[str, Any]) -> str:
    """Encode values as a query string, without empty ones."""
    return urlencode([(key, value) for key, value in values.items() if value not in (None, "")])


def _phrase(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
