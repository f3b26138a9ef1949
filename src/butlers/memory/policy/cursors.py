"""Where a listing goes on: a place in its order, as a text that only the listing reads."""

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from butlers.errors import InvalidInput

_MARK = "c1"
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class RowPosition:
    """A row's place in the order `created_at desc, id`."""

    created_at: datetime
    id: UUID


def encode(place: RowPosition) -> str:
    """The place as a text fit for a URL."""
    written = f"{_MARK} {place.created_at.astimezone(UTC).isoformat()} {place.id}"
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def decode(cursor: str | None) -> RowPosition | None:
    """The place a cursor names; None for none, InvalidInput for what no listing gave out."""
    if cursor is None:
        return None
    try:
        mark, created_at, row_id = _opened(cursor).split(" ")
        place = RowPosition(datetime.fromisoformat(created_at), UUID(row_id))
    except (ValueError, binascii.Error):
        raise _refused(cursor) from None
    if mark != _MARK or encode(place) != cursor:
        raise _refused(cursor)
    return place


def _opened(cursor: str) -> str:
    if len(cursor) > _LONGEST:
        raise ValueError("too long")
    padded = cursor + "=" * (-len(cursor) % 4)
    return base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True).decode("ascii")


def _refused(cursor: str) -> InvalidInput:
    return InvalidInput(
        f"cursor: found {cursor[:80]!r}; valid is the next_cursor of the page before, or none"
    )
