"""Where a server's files lie, so that the account it runs as can reach them and nobody else can."""

import hashlib
import itertools
import os
import re
import tempfile
from pathlib import Path

from butlers.db.embedded.account import UserAccount
from butlers.db.embedded.liveness import SOCKET_NAME
from butlers.errors import Unavailable

# Root's home is closed to the server's account; these are not.
SHARED_PLACES = ("/var/lib/butlers", "/srv/butlers", "/var/tmp/butlers")
_LONGEST_SOCKET_PATH = 99
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")


def location(directory: Path) -> Path:
    """Where the directory has its cluster: in itself, or in the place that was recorded in it."""
    try:
        return Path((directory / "location").read_text(encoding="utf-8").strip()).resolve()
    except (FileNotFoundError, NotADirectoryError):
        return directory.resolve()


def recorded_place(directory: Path) -> Path:
    """The directory itself, or the other place that was recorded in it, which is there."""
    place = location(directory)
    if place != directory.resolve() and not place.is_dir():
        raise Unavailable(
            f"{directory / 'location'} says the database lies in {place}, which is missing; bring "
            f"it back, or delete {directory / 'location'} to start with an empty database, or "
            "restore a backup into an empty home with `butlers restore FILE`"
        )
    return place


def reachable_place(directory: Path, account: UserAccount) -> Path:
    """The recorded place; for a new database of root's, one the server's account can enter."""
    place = recorded_place(directory)
    if account.uid == os.geteuid() or account.can_enter(place):
        if ":" in str(place):  # PostgreSQL separates the directories of extensions by colons
            raise Unavailable(f"{place} contains a colon; choose a data directory without one")
        return place
    if place != directory or (place / "data").exists():
        raise Unavailable(
            f"user {account.name}, who runs PostgreSQL, cannot enter {place}; make each directory "
            "on the way passable (chmod o+x), or choose another data directory"
        )
    return _move_elsewhere(directory)


def shared_place() -> Path:
    """A directory of root's that every user may pass through and nobody else may change."""
    for candidate in map(Path, SHARED_PLACES):
        try:
            candidate.mkdir(mode=0o755, exist_ok=True)
            found = candidate.lstat()
        except OSError:
            continue
        if not candidate.is_symlink() and found.st_uid == 0 and not found.st_mode & 0o022:
            candidate.chmod(0o755)
            return candidate
    raise Unavailable(
        f"none of {', '.join(SHARED_PLACES)} can hold PostgreSQL's files; create one of them owned "
        "by root with mode 755, or run as an ordinary user"
    )


def socket_directory_in(place: Path, account: UserAccount, previous: Path | None) -> Path:
    """A private directory whose path fits into a socket address, in `place` if that is short."""
    own = place / "run"
    if _fits(own):
        account.make_private(own)
        return own
    if previous is not None and _fits(previous) and account.owns_alone(previous):
        return previous
    return _short_directory(account, place)


def _move_elsewhere(directory: Path) -> Path:
    """A place without a database in it, recorded in the directory.

    The database of a home that was deleted may lie there still: it is neither taken up, for the
    new home is meant to be empty, nor removed, for its owner may want it back.
    """
    shared, name = shared_place(), hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    numbered = (shared / (f"{name}-{number}" if number else name) for number in itertools.count())
    place = next(place for place in numbered if not (place / "data").exists())
    place.mkdir(mode=0o711, exist_ok=True)
    unfinished = directory / "location.new"
    unfinished.write_text(f"{place}\n", encoding="utf-8")
    unfinished.replace(directory / "location")
    return place


def _short_directory(account: UserAccount, place: Path) -> Path:
    # The runtime directory comes last: it vanishes at logout, while the server may still be needed.
    for parent in (tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR", "")):
        if parent and _fits(Path(parent) / "butlers-12345678") and account.can_enter(Path(parent)):
            try:
                made = Path(tempfile.mkdtemp(prefix="butlers-", dir=parent))
            except OSError:
                continue
            account.make_private(made)
            return made
    raise Unavailable(
        f"{place} is too long a path for a socket and no shorter directory can be written to; set "
        "TMPDIR to a short path, or choose a shorter data directory"
    )


def _fits(directory: Path) -> bool:
    """Short enough, and free of signs that connection strings or settings would split at."""
    path = str(directory / SOCKET_NAME)
    return len(path) <= _LONGEST_SOCKET_PATH and _PLAIN.fullmatch(path) is not None
