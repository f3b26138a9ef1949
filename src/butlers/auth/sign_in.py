"""Links that sign in the owner of the home: each works once, for ten minutes.

A link is a private file in the home, named by the digest of the link's secret, which is stored
nowhere. Only the owner of the home can write such a file.
"""

import os
import secrets
import stat
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from butlers.auth.tokens import digest_of
from butlers.clock import Clock, utc_now

LIFE = timedelta(minutes=10)


class SignInLinks:
    """The unused sign-in links of a home."""

    def __init__(self, directory: Path, clock: Clock = utc_now) -> None:
        self._directory = directory
        self._clock = clock

    def create(self) -> str:
        """Make a link and return its path, which is stored nowhere."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._sweep()
        secret = secrets.token_urlsafe(32)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(self._file(secret), flags, 0o600), "w") as file:
            file.write((self._clock() + LIFE).isoformat())
        return f"/sign-in/once/{secret}"

    def redeem(self, secret: str) -> bool:
        """Use a link up; false if it is unknown, used or expired."""
        file = self._file(secret)
        try:
            is_good = self._is_good(file)
            file.unlink()  # of two at once, one finds nothing here
        except FileNotFoundError:
            return False
        return is_good

    def _file(self, secret: str) -> Path:
        return self._directory / digest_of(secret)

    def _is_good(self, file: Path) -> bool:
        """Whether we wrote it, where nobody else could have, and it has not expired."""
        status = file.lstat()
        is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if not is_ours or status.st_mode & 0o077:
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
