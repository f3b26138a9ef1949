"""Links that sign in the owner of the home: each works once, for ten minutes.

A link is a private file in the home, named by the digest of the link's secret, which is stored
nowhere. Only the owner of the home can write such a file. A link
made without a person being present signs in, but does not let anybody decide what waits.
"""

import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from butlers.auth.tokens import digest_of
from butlers.clock import Clock, utc_now

LIFE = timedelta(minutes=10)
CANNOT_DECIDE = "To decide what waits for you, run `butlers open` in a terminal instead."
_DECIDES = "decides"


@dataclass(frozen=True, slots=True)
class SignInLink:
    """A link that was good: what its holder may do."""

    may_decide: bool


class SignInLinks:
    """The unused sign-in links of a home."""

    def __init__(self, directory: Path, clock: Clock = utc_now) -> None:
        self._directory = directory
        self._clock = clock

    def create(self, *, may_decide: bool = False) -> str:
        """Make a link and return its path, which is stored nowhere."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._sweep()
        secret = secrets.token_urlsafe(32)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(self._file(secret), flags, 0o600), "w") as file:
            ends = (self._clock() + LIFE).isoformat()
            file.write(f"{ends} {_DECIDES}" if may_decide else ends)
        return f"/sign-in/once/{secret}"

    def redeem(self, secret: str) -> SignInLink | None:
        """Use a link up; None if it is unknown, used or expired."""
        file = self._file(secret)
        try:
            link = self._read(file)
            file.unlink()  # of two at once, one finds nothing here
        except FileNotFoundError:
            return None
        return link

    def _file(self, secret: str) -> Path:
        return self._directory / digest_of(secret)

    def _read(self, file: Path) -> SignInLink | None:
        """Read a link; None unless we wrote it, where nobody else could have, and it is valid."""
        status = file.lstat()
        is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if not is_ours or status.st_mode & 0o077:
            return None
        ends, _, word = file.read_text(encoding="utf-8", errors="replace").partition(" ")
        try:
            is_valid = self._clock() < datetime.fromisoformat(ends)
        except ValueError:
            return None
        return SignInLink(word == _DECIDES) if is_valid else None

    def _sweep(self) -> None:
        for file in self._directory.iterdir():
            with suppress(FileNotFoundError):
                if self._read(file) is None:
                    file.unlink()
