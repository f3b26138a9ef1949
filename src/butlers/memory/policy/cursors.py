"""Page cursors: where in a listing the next page begins."""

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
