"""The user PostgreSQL runs as: ourselves, or an unprivileged one when we are root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from butlers.errors import Unavailable

UNPRIVILEGED = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class UserAccount:
    """One user of this machine, under whom programs can be run."""

    uid: int
    gid: int
    name: str

    def run(
        self,
        command: list[str | Path],
        *,
        output: int | IO[bytes] = subprocess.PIPE,
        environment: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run to its end, out of reach of Ctrl-C and without PostgreSQL's environment variables."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=kept | {"LC_ALL": "C"} | (environment or {}),
            umask=0o077,
            start_new_session=True,
            check=False,
            **self._identity(),
        )

    def can_enter(self, directory: Path) -> bool:
        """Return whether this user may enter a directory; asks the kernel."""
        return self.run(["/bin/sh", "-c", 'cd -- "$0"', directory]).returncode == 0

    def give(self, path: Path) -> None:
        """Make this user the owner."""
        if os.geteuid() != self.uid:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def owns_alone(self, directory: Path) -> bool:
        """Return whether it is a real directory of this user that nobody else may enter."""
        try:
            found = directory.lstat()
        except OSError:
            return False
        return directory.is_dir() and found.st_uid == self.uid and not found.st_mode & 0o077

    def make_private(self, directory: Path) -> None:
        """Create the directory if missing, and let this user alone enter it."""
        directory.mkdir(mode=0o700, exist_ok=True)
        if directory.is_symlink():
            raise Unavailable(f"{directory} is a symbolic link; remove it and start again")
        self.give(directory)
        directory.chmod(0o700)

    def _identity(self) -> dict[str, Any]:
        if os.geteuid() == self.uid:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def account_for(data: Path) -> UserAccount:
    """Return the user who runs the server over `data`: for root, its owner or an ordinary user."""
    ourselves = os.geteuid()
    owner = data.stat().st_uid if data.exists() else None
    if ourselves == 0:
        return _unprivileged() if owner in (None, 0) else _by_uid(owner)
    if owner not in (None, ourselves):
        raise Unavailable(
            f"{data} belongs to user {_by_uid(owner).name}, not to you; run as that user or as "
            "root, or choose another data directory"
        )
    return _by_uid(ourselves)


def _unprivileged() -> UserAccount:
    for name in UNPRIVILEGED:
        try:
            return _account(pwd.getpwnam(name))
        except KeyError:
            continue
    raise Unavailable(
        "PostgreSQL does not run as root and this machine has neither a user postgres nor nobody; "
        "create one (useradd --system postgres) or run as an ordinary user"
    )


def _by_uid(uid: int | None) -> UserAccount:
    try:
        return _account(pwd.getpwuid(-1 if uid is None else uid))
    except KeyError:
        raise Unavailable(
            f"user id {uid} has no entry in the password database, which PostgreSQL needs; "
            f"add one to /etc/passwd or run as a user that has one"
        ) from None


def _account(entry: pwd.struct_passwd) -> UserAccount:
    return UserAccount(entry.pw_uid, entry.pw_gid, entry.pw_name)
