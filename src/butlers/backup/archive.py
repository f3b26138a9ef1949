"""The file a backup is: a zip, in which a manifest says what every other member must be.

The manifest is written last, and a zip without its end is none: a file that was cut short
never looks whole.
"""

import hashlib
import os
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from butlers.atomic_files import PRIVATE
from butlers.db.sqlite import translated_errors
from butlers.errors import InvalidInput
from butlers.host.home import Home
from butlers.sessions import spool

FORMAT = 1
MANIFEST = "manifest.json"
ROLES = "roles.sql"
FILES = "home/"
_PIECE_BYTES = 1024 * 1024
_MOST_MANIFEST_BYTES = 64 * 1024**2


def dump_of(butler: str) -> str:
    """The member with a butler's database."""
    return f"databases/{butler}.dump"


class _Part(BaseModel):
    # Not strict: it comes from JSON, which has no tuples.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Member(_Part):
    """What a member holds when it is whole."""

    bytes: int
    sha256: str


class StoredDatabase(_Part):
    """What is known of a butler's database as it lies in the backup."""

    revisions: tuple[str, ...]
    counts: dict[str, int]
    postgres: int
    is_external: bool = False
    embedding: str = ""
    """The fingerprint of the model that its vectors are compared with; "" for no memory."""

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return sum(self.counts.values())


class Manifest(_Part):
    """What a backup says of itself."""

    format: int
    version: str
    made_at: AwareDatetime
    home: str
    host: str
    databases: dict[str, StoredDatabase]
    hooks: tuple[str, ...]
    """The butlers whose hooks had a token; a backup holds none, so they get new ones."""
    left_out: tuple[str, ...]
    members: dict[str, Member]


class Writing:
    """A backup that is being written, member after member."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w")
        self.members: dict[str, Member] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # What was not finished is thrown away: nobody needs to hear that it cannot be.
        with suppress(OSError, ValueError):
            self._zip.close()

    @contextmanager
    def member(self, name: str, *, squeeze: bool = True) -> Iterator[Callable[[bytes], None]]:
        """What writes to the next member; a dump is compressed already and not squeezed again."""
        digest, size = hashlib.sha256(), 0

        def write(piece: bytes) -> None:
            nonlocal size
            stream.write(piece)
            digest.update(piece)
            size += len(piece)

        with self._zip.open(_info(name, squeeze), "w", force_zip64=True) as stream:
            yield write
        self.members[name] = Member(bytes=size, sha256=digest.hexdigest())

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, and the end without which it is no zip."""
        self._zip.writestr(_info(MANIFEST, True), manifest.model_dump_json(indent=1))
        self._zip.close()


class Archive:
    """A backup to be read; one whose manifest does not fit its members is refused."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self._zip = zipfile.ZipFile(file)
            self.manifest = self._manifest()
        except (zipfile.BadZipFile, KeyError, ValidationError, EOFError) as error:
            raise InvalidInput(
                f"{file} is no whole backup ({_brief(error)}); it may have been cut short: take "
                "another one"
            ) from None
        if self.manifest.format > FORMAT:
            raise InvalidInput(
                f"{file} was written by butlers {self.manifest.version}, in a form this version "
                "does not know; upgrade butlers first"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def check(self) -> None:
        """Read every member; InvalidInput names the first that is not what it was."""
        expected, found = set(self.manifest.members), set(self._zip.namelist()) - {MANIFEST}
        for name in sorted(expected ^ found):
            raise self._damaged(name, "missing" if name in expected else "not its own")
        for name, member in self.manifest.members.items():
            digest = hashlib.sha256()
            for piece in self.pieces(name):
                digest.update(piece)
            if digest.hexdigest() != member.sha256:
                raise self._damaged(name, "not what was written")

    def pieces(self, name: str) -> Iterator[bytes]:
        """What a member holds, piece by piece."""
        try:
            with self._zip.open(name) as stream:
                while piece := stream.read(_PIECE_BYTES):
                    yield piece
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise self._damaged(name, _brief(error)) from None

    def files(self) -> Iterator[tuple[PurePosixPath, str]]:
        """The files of the home by their path there, each with the name of its member."""
        for name in self.manifest.members:
            if name.startswith(FILES):
                yield PurePosixPath(name.removeprefix(FILES)), name

    def _manifest(self) -> Manifest:
        if self._zip.getinfo(MANIFEST).file_size > _MOST_MANIFEST_BYTES:
            raise zipfile.BadZipFile("its manifest is too large")
        return Manifest.model_validate_json(self._zip.read(MANIFEST))

    def _damaged(self, name: str, how: str) -> InvalidInput:
        return InvalidInput(f"{self.file} is damaged: {name} is {how}; take another backup")


def _info(name: str, squeeze: bool) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED if squeeze else zipfile.ZIP_STORED
    info.external_attr = PRIVATE << 16
    return info


def _brief(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"{error.error_count()} faults in its manifest"
    return str(error) or type(error).__name__


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
