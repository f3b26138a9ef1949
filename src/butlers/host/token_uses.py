"""When tokens were last used: the time of an empty file each, which no two processes dispute."""

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

_BETWEEN_NOTES = timedelta(minutes=1)


class TokenUses:
    """The last use of each token of a home, to the minute."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._noted: dict[str, datetime] = {}

    def note(self, token_id: str, now: datetime) -> None:
        """A token is used; nobody is refused because that cannot be written down."""
        noted = self._noted.get(token_id)
        if noted is not None and now - noted < _BETWEEN_NOTES:
            return
        self._noted[token_id] = now
        with suppress(OSError):
            self._directory.mkdir(mode=0o700, exist_ok=True)
            file = self._directory / token_id
            file.touch(mode=0o600)
            os.utime(file, (now.timestamp(), now.timestamp()))

    def last_at(self, token_id: str) -> datetime | None:
        """When a token was last used; None where no use is known."""
        try:
            return datetime.fromtimestamp((self._directory / token_id).stat().st_mtime, UTC)
        except OSError:
            return None

    def forget(self, token_id: str) -> None:
        """There is no such token any more."""
        with suppress(OSError):
            (self._directory / token_id).unlink()
