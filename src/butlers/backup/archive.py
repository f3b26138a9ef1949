"""The file of a backup: a zip with a manifest that has the hash of every other member.

The manifest is written last, so that a file that was cut short is recognised.
"""

import hashlib
import os
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from butlers.atomic_files import PRIVATE
from butlers.backup.encryption import EncryptedWriter, decrypted, is_encrypted
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
    """Return the name of the member with a butler's database."""
    return f"databases/{butler}.dump"


class _Part(BaseModel):
    # Not strict: it comes from JSON, which has no tuples.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Member(_Part):
    """The size and hash of a member."""

    bytes: int
    sha256: str


class StoredDatabase(_Part):
    """A butler's database in the backup."""

    revisions: tuple[str, ...]
    counts: dict[str, int]
    postgres: int
    is_external: bool = False
    embedding: str = ""
    """The version of the embedding model of its vectors; "" without a memory."""

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(self.counts.values())


class Manifest(_Part):
    """The contents of a backup."""

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


class Writing(AbstractContextManager["Writing"]):
    """A backup that is being written, one member after another; encrypted with a passphrase."""

    def __init__(self, file: IO[bytes], passphrase: str = "") -> None:
        self._encrypted = EncryptedWriter(file, passphrase) if passphrase else None
        self._zip = zipfile.ZipFile(cast("Any", self._encrypted or file), "w")
        self.members: dict[str, Member] = {}

    def __exit__(self, *_: object) -> None:
        # A file that was not finished is thrown away, and so are its errors.
        with suppress(OSError, ValueError):
            self._zip.close()

    @contextmanager
    def member(self, name: str, *, squeeze: bool = True) -> Iterator[Callable[[bytes], None]]:
        """Open the next member for writing; `squeeze` compresses it, which dumps are already."""
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
        """Write the manifest and the end of the zip."""
        self._zip.writestr(_info(MANIFEST, True), manifest.model_dump_json(indent=1))
        self._zip.close()
        if self._encrypted is not None:
            self._encrypted.finish()


class Archive(AbstractContextManager["Archive"]):
    """A backup to read; InvalidInput if it is damaged or newer, or the passphrase is wrong."""

    def __init__(self, file: Path, passphrase: str = "") -> None:
        self.file = file
        self._decrypted = decrypted(file, passphrase) if is_encrypted(file) else None
        try:
            self._zip = zipfile.ZipFile(self._decrypted or file)
            if self._zip.getinfo(MANIFEST).file_size > _MOST_MANIFEST_BYTES:
                raise zipfile.BadZipFile("its manifest is too large")
            self.manifest = Manifest.model_validate_json(self._zip.read(MANIFEST))
        except (zipfile.BadZipFile, KeyError, ValidationError, EOFError) as error:
            raise InvalidInput(
                f"{file} is not a complete backup ({_brief(error)}); it may be truncated: use "
                "another one"
            ) from None
        if self.manifest.format > FORMAT:
            raise InvalidInput(
                f"{file} was written by butlers {self.manifest.version}, in a format this "
                "version cannot read; upgrade butlers first"
            )

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        if self._decrypted is not None:
            self._decrypted.close()

    def check(self) -> None:
        """Read every member; InvalidInput names the first that is missing, changed or unknown."""
        if self._decrypted is not None:  # what is between the members is authenticated as well
            self._decrypted.seek(0)
            while self._decrypted.read(_PIECE_BYTES):
                pass
        expected, present = set(self.manifest.members), set(self._zip.namelist()) - {MANIFEST}
        for name in sorted(expected ^ present):
            raise self._damaged(name, "missing" if name in expected else "not in its manifest")
        for name, member in self.manifest.members.items():
            digest = hashlib.sha256()
            for piece in self.pieces(name):
                digest.update(piece)
            if digest.hexdigest() != member.sha256:
                raise self._damaged(name, "changed: its hash differs")

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the content of a member in pieces."""
        try:
            with self._zip.open(name) as stream:
                while piece := stream.read(_PIECE_BYTES):
                    yield piece
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise self._damaged(name, _brief(error)) from None

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
    # Databases are dumped, logs and sign-in links are of this machine, tokens are secret.
    {
        "postgres",
        "logs",
        "run.json",
        "run.new",
        "mcp.sock",
        "invitations",
        "hooks",
        "commands",
        "originals",
    }
    | {BACKUPS, spool.RESERVE}
)
_PASSING = (".lock", "-wal", "-shm", "-journal")
_SQLITE = b"SQLite format 3\0"


def home_files(home: Home) -> list[Path]:
    """List the files to back up, the spool first: what is stored meanwhile is then dumped."""
    waiting = home.root / spool.DIRECTORY
    entries = [entry for entry in sorted(home.root.iterdir()) if entry.name not in _LEFT_OUT]
    entries.sort(key=lambda entry: entry != waiting)
    return [file for entry in entries for file in _files(entry, set())]


def belongs(path: PurePosixPath) -> bool:
    """Whether a file at this path of a home can be part of a backup; a forged one is refused."""
    inside = bool(path.parts) and not path.is_absolute() and path.parts[0] not in _LEFT_OUT
    return inside and not any(part.startswith(".") for part in path.parts)


def is_sqlite(file: Path) -> bool:
    """Whether a file is an SQLite database, which must not be copied as a file."""
    with file.open("rb") as stream:
        return stream.read(len(_SQLITE)) == _SQLITE


def sqlite_image(file: Path) -> bytes:
    """Return a consistent state of an SQLite database while others may write.

    A copy on a disk would be one more, in the clear beside an encrypted backup.
    """
    address = f"{file.resolve().as_uri()}?mode=ro"
    with translated_errors(), closing(sqlite3.connect(address, uri=True)) as source:
        source.execute("begin")
        source.execute("select 1 from sqlite_schema").fetchone()  # from here on one state
        return source.serialize()


def _files(path: Path, above: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield the regular files at and below a path; links are followed, but not in circles."""
    if path.name.startswith(".") or path.name.endswith(_PASSING):
        return  # a draft, or a file of a running process
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
