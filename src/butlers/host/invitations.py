"""Links that sign in whoever owns the home, each once and for ten minutes.

Whoever may write a private file into the home makes one; whoever serves the home looks for that
file. Only the digest of a link's secret is written down, as the name of the file.
"""

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from butlers.clock import Clock, utc_now
from butlers.host.home import PRIVATE, Home

LIFE = timedelta(minutes=10)


class Invitations:
    """The links of a home that nobody has used yet."""

    def __init__(self, home: Home, clock: Clock = utc_now) -> None:
        self._directory = home.invitations_directory
        self._clock = clock

    def create(self) -> str:
        """Make a link; its path, to be shown to whoever asked and kept nowhere."""
        self._directory.mkdir(mode=PRIVATE, exist_ok=True)
        self._sweep()
        secret = secrets.token_urlsafe(32)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(self._file(secret), flags, 0o600), "w") as file:
            file.write((self._clock() + LIFE).isoformat())
        return f"/sign-in/once/{secret}"

    def redeem(self, secret: str) -> bool:
        """Whether this is the secret of a link, for the first time and in time."""
        file = self._file(secret)
        try:
            is_good = self._is_good(file)
            file.unlink()  # of two at once, one finds nothing here
        except FileNotFoundError:
            return False
        return is_good

    def _file(self, secret: str) -> Path:
        return self._directory / hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()

    def _is_good(self, file: Path) -> bool:
        """Whether we wrote it, where nobody else could have, and it has not expired."""
        found = file.lstat()
        is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if not is_ours or found.st_mode & 0o077:
            return False
        try:
            return self._clock() < datetime.fromisoformat(file.read_text(encoding="utf-8"))
        except ValueError:
            return False

    def _sweep(self) -> None:
        for file in self._directory.iterdir():
            with suppress(FileNotFoundError):
                if not self._is_good(file):
                    file.unlink()
