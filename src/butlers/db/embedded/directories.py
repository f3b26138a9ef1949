"""Choose the directories of the server's files: reachable by its account and closed to others.

A data directory and the home's directory keep the same identity. The data directory's record also
says where the home's lies: one that was moved is no longer there, so the database follows it; a
copy finds the original still there, and is refused.
"""

import hashlib
import itertools
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from butlers.atomic_files import replace_file
from butlers.db.embedded.account import UserAccount
from butlers.db.embedded.liveness import SOCKET_NAME
from butlers.errors import Unavailable
from butlers.ids import new_id

# Root's home is closed to the server's account; these are not.
SHARED_PLACES = ("/var/lib/butlers", "/srv/butlers", "/var/tmp/butlers")
_LONGEST_SOCKET_PATH = 99
_IDENTITY_FILE = "identity"
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")


def location(directory: Path) -> Path:
    """Return where a home's directory has its database: in itself, or where its record says."""
    try:
        return Path((directory / "location").read_text(encoding="utf-8").strip()).resolve()
    except (FileNotFoundError, NotADirectoryError):
        return directory.resolve()


def recorded_place(directory: Path) -> Path:
    """Return the directory of the database; Unavailable where the recorded one is missing."""
    place = location(directory)
    if place != directory.resolve() and not place.is_dir():
        raise Unavailable(
            f"{directory / 'location'} says the database is in {place}, which is missing; bring "
            f"it back, or delete {directory / 'location'} to start with an empty database, or "
            "restore a backup into an empty home with `butlers restore FILE`"
        )
    return place


def reachable_place(directory: Path, account: UserAccount) -> Path:
    """Return the directory of the database; create one of root's where the account enters."""
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
    """Return a directory of root's that every user may enter and nobody else may change."""
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
    """Return a private directory whose path fits into a socket address, in `place` if short."""
    own = place / "run"
    if _fits(own):
        account.make_private(own)
        return own
    if previous is not None and _fits(previous) and account.owns_alone(previous):
        return previous
    return _short_directory(account, place)


def _move_elsewhere(directory: Path) -> Path:
    """Choose a directory without a database for a home, and record it.

    The database of a deleted home may still be there. It is neither used, since the new home
    shall be empty, nor removed, since its owner may want it back.
    """
    shared, name = shared_place(), hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    numbered = (shared / (f"{name}-{number}" if number else name) for number in itertools.count())
    place = next(place for place in numbered if not (place / "data").exists())
    place.mkdir(mode=0o711, exist_ok=True)
    replace_file(directory / "location", f"{place}\n")
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
    """Return whether a path is short enough and has no characters that would need quoting."""
    path = str(directory / SOCKET_NAME)
    return len(path) <= _LONGEST_SOCKET_PATH and _PLAIN.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """The identity of a database, and the directory of the home it belongs to."""

    id: str
    directory: Path


def check_identity(directory: Path, place: Path) -> None:
    """Raise Unavailable where the database in `place` is not that of `directory`."""
    known, ours = _read_identity(place), _read_identity(directory)
    if known is None:
        return
    if ours is not None and ours.id != known.id:
        raise _foreign(directory, place)
    if not _is_same(known.directory, directory) and location(known.directory) == place:
        raise _copied(directory.parent, known.directory.parent, place)


def claim_identity(directory: Path, place: Path) -> None:
    """Record that the database in `place` is that of `directory`; Unavailable if another's.

    The caller holds the lock on starting and stopping the server, so that of two only one can.
    """
    check_identity(directory, place)
    known = _read_identity(place)
    if known is None or not _is_same(known.directory, directory):
        known = DatabaseIdentity(known.id if known else str(new_id()), directory)
        _write_identity(place, known)
    if _read_identity(directory) is None:
        _write_identity(directory, known)


def _read_identity(place: Path) -> DatabaseIdentity | None:
    """Read the identity in a directory; None where nobody has claimed it yet."""
    try:
        record = json.loads((place / _IDENTITY_FILE).read_text(encoding="utf-8"))
        return DatabaseIdentity(str(record["id"]), Path(record["directory"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise Unavailable(
            f"{place / _IDENTITY_FILE} is damaged; if {place} belongs to no other home, delete it"
        ) from None


def _foreign(directory: Path, place: Path) -> Unavailable:
    return Unavailable(
        f"the database in {place} is that of another home than {directory.parent}, which was "
        f"copied here without its own; delete {directory / 'location'} to begin with an empty "
        "database, or bring it here by `butlers backup` and, into an empty home, `butlers restore`"
    )


def _copied(copy: Path, original: Path, place: Path) -> Unavailable:
    return Unavailable(
        f"{copy} is a copy of {original}, whose database in {place} it would share; for one with "
        f"data of its own run `butlers backup FILE --home {original}`, then `butlers restore FILE` "
        f"into an empty home. If it is to take the original's place, move {original} away first"
    )


def _is_same(one: Path, other: Path) -> bool:
    """Return whether both paths lead to the same directory of the same home."""
    try:
        return one.name == other.name and os.path.samefile(one.parent, other.parent)
    except FileNotFoundError:
        return False


def _write_identity(place: Path, identity: DatabaseIdentity) -> None:
    record = {"id": identity.id, "directory": str(identity.directory)}
    replace_file(place / _IDENTITY_FILE, json.dumps(record) + "\n")
