"""Which files of a home a backup holds: all but those of this machine, and of what runs now."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath

from butlers.db.sqlite import translated_errors
from butlers.host.home import Home
from butlers.sessions import spool

BACKUPS = "backups"
_LEFT_OUT = frozenset(
    # The databases are dumped, logs and links to sign in end with the machine, and a token in
    # clear has no place in a file that is carried about.
    {"postgres", "logs", "run.json", "run.new", "mcp.sock", "invitations", "hooks", "commands"}
    | {BACKUPS}
)
_PASSING = (".lock", "-wal", "-shm", "-journal")
_SQLITE = b"SQLite format 3\0"


def home_files(home: Home) -> list[Path]:
    """The files to keep, what waits in the spool first.

    A session that is stored meanwhile is then in the database as well, where it counts once.
    """
    waiting = home.root / spool.DIRECTORY
    found = [*_files(waiting, set())] if waiting.is_dir() else []
    for entry in sorted(home.root.iterdir()):
        if entry.name not in _LEFT_OUT and entry != waiting:
            found += _files(entry, set())
    return found


def belongs(path: PurePosixPath) -> bool:
    """Whether a backup may hold a file at this path of a home; one that was made up may not."""
    inside = bool(path.parts) and not path.is_absolute() and path.parts[0] not in _LEFT_OUT
    return inside and not any(part.startswith(".") for part in path.parts)


def is_sqlite(file: Path) -> bool:
    """Whether a file is an SQLite database, which must not be copied as it stands."""
    with file.open("rb") as stream:
        return stream.read(len(_SQLITE)) == _SQLITE


def copy_sqlite(file: Path, copy: Path) -> None:
    """Copy an SQLite database as it is at one moment, whoever writes meanwhile."""
    with (
        translated_errors(),
        closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)


def hooks_of(home: Home) -> tuple[str, ...]:
    """The butlers whose hooks have a token."""
    return tuple(name for name in home.butler_names() if home.hook_token_file(name).exists())


def _files(path: Path, above: set[tuple[int, int]]) -> Iterator[Path]:
    """The regular files at and below a path; a link is followed, though never in a circle."""
    if path.name.startswith(".") or path.name.endswith(_PASSING):
        return  # a draft of a file, or what a process holds while it runs
    try:
        if path.is_file():
            yield path
        elif path.is_dir():
            status = os.stat(path)
            here = (status.st_dev, status.st_ino)
            for entry in sorted(path.iterdir()) if here not in above else ():
                yield from _files(entry, above | {here})
    except FileNotFoundError:
        return  # stored meanwhile
