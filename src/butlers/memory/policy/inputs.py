"""Check what callers give: ids, words, texts, limits and page cursors."""

import base64
import binascii
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar
from uuid import UUID

from butlers.errors import InvalidInput
from butlers.kernel import text

# Together with scope and tenant these form an index entry, which PostgreSQL bounds at 2.7 kB.
MAX_SUBJECT = 200
MAX_PREDICATE = 100
MAX_SCOPE = 100
MAX_NAME = 200
MAX_TAGS = 50
MAX_TAG = 100
MAX_REASON = 2_000

Word = TypeVar("Word", bound=StrEnum)


def checked_text(field: str, value: str, limit: int) -> str:
    """Return a text without NUL and surrounding space; refuse an empty or too long one."""
    cleaned = text.clean(value).strip()
    if not cleaned:
        raise InvalidInput(f"{field}: found an empty text; valid is 1 to {limit} characters")
    if len(cleaned) > limit:
        raise InvalidInput(
            f"{field}: found a text of {len(cleaned)} characters; valid is at most {limit}"
        )
    return cleaned


def checked_line(field: str, value: str, limit: int) -> str:
    """Return a checked text on one line, so that keys do not differ by invisible characters."""
    return checked_text(field, text.normalise_whitespace(text.clean(value)), limit)


def checked_number(field: str, value: float, low: float, high: float) -> float:
    """Return a number; refuse one out of bounds, and NaN."""
    if math.isnan(value) or not low <= value <= high:
        raise InvalidInput(f"{field}: found {value}; valid is {low:g} to {high:g}")
    return float(value)


def checked_word(field: str, value: str, vocabulary: type[Word]) -> Word:
    """Return a word of a vocabulary; refuse others."""
    try:
        return vocabulary(value)
    except ValueError:
        valid = ", ".join(vocabulary)
        raise InvalidInput(f"{field}: found {value[:80]!r}; valid are {valid}") from None


def checked_id(field: str, value: str | UUID) -> UUID:
    """Return a UUID; refuse anything else."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except ValueError:
        raise InvalidInput(
            f"{field}: found {value[:80]!r}; valid is a UUID such as "
            "00000000-0000-4000-8000-000000000000"
        ) from None


def checked_limit(value: int, most: int) -> int:
    """Return a limit; refuse one out of bounds."""
    if not 1 <= value <= most:
        raise InvalidInput(f"limit: found {value}; valid is 1 to {most}")
    return value


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags on one line each, without repetition, in the order given."""
    if len(tags) > MAX_TAGS:
        raise InvalidInput(f"tags: found {len(tags)} of them; valid is at most {MAX_TAGS}")
    return tuple(dict.fromkeys(checked_line("tags", tag, MAX_TAG) for tag in tags))


_MARK = "c1"
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class RowPosition:
    """A row's position in the order `created_at desc, id`."""

    created_at: datetime
    id: UUID


def encode(position: RowPosition) -> str:
    """Encode a position as a cursor, fit for a URL."""
    written = f"{_MARK} {position.created_at.astimezone(UTC).isoformat()} {position.id}"
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def decode(cursor: str | None) -> RowPosition | None:
    """Decode a cursor; refuse one that no listing returned."""
    if cursor is None:
        return None
    try:
        mark, created_at, row_id = _unpacked(cursor).split(" ")
        position = RowPosition(datetime.fromisoformat(created_at), UUID(row_id))
        if mark == _MARK and encode(position) == cursor:
            return position
    except (ValueError, binascii.Error):
        pass
    raise InvalidInput(
        f"cursor: found {cursor[:80]!r}; valid is the next_cursor of the page before, or none"
    )


def _unpacked(cursor: str) -> str:
    if len(cursor) > _LONGEST:
        raise ValueError("too long")
    padded = cursor + "=" * (-len(cursor) % 4)
    return base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True).decode("ascii")
