"""Restore a backup into an empty home, after checking it.

All is built in a directory of its own; once complete, its entries are moved into place, the butlers
last. A restore that was interrupted is finished by the next call.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from butlers.atomic_files import PRIVATE, flush_directory, replace_file
from butlers.backup.archive import (
    BACKUPS,
    FILES,
    ROLES,
    Archive,
    Manifest,
    StoredDatabase,
    belongs,
    dump_of,
)
from butlers.backup.create import Tell, fingerprint, locked
from butlers.db import dump
from butlers.db.embedded.directories import location
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.migrate import WAY_OUT, retired_revisions
from butlers.db.postgres import Access
from butlers.db.primary_connector import connected
from butlers.errors import Conflict, IntegrityViolation, InvalidInput, SettingsError
from butlers.host import registry
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.host.home_tokens import renew_private_tokens
from butlers.host.hosting import check_database
from butlers.memory.module import MemoryModule
from butlers.sessions import spool
from butlers.settings.files import load_butler
from butlers.settings.sections import ButlerSettings, DatabaseSection

_WHOLE = ".whole"
# What an empty home may have: files of hooks, which are merged, and old backups and logs.
_ANYWHERE = frozenset({spool.DIRECTORY, os.path.dirname(spool.WITHOUT_MEMORY), BACKUPS, "logs"})
_LAST = "butlers"


@dataclass(frozen=True, slots=True)
class RestoredHome:
    """A backup that was restored, and notes for the person who restored it."""

    manifest: Manifest
    notes: tuple[str, ...]


async def verify(
    file: Path, *, deep: bool = False, tell: Tell = print, passphrase: str = ""
) -> Manifest:
    """Check a backup and return its manifest; `deep` restores it to a scratch home and counts."""
    with await asyncio.to_thread(Archive, file, passphrase) as archive:
        await _prove(archive)
        if deep:
            await _restore_aside(archive, tell)
        return archive.manifest


async def _restore_aside(archive: Archive, tell: Tell) -> None:
    """Restore a backup to a scratch home, tell what is wrong with it, and remove it."""
    with tempfile.TemporaryDirectory(prefix="butlers-") as scratch:
        os.chmod(scratch, 0o711)  # for the account that runs the database of root
        home = Home(Path(scratch) / "home")
        home.root.mkdir(0o711)
        try:
            for line in await _fill(archive, home, tell, only_here=True):
                tell(line)
        finally:
            await asyncio.to_thread(_remove_cluster, home)


async def restore(file: Path, home: Home, tell: Tell = print, passphrase: str = "") -> RestoredHome:
    """Restore a backup into an empty home and check the number of rows; Conflict if not empty."""
    found: list[str] = []
    opened = await asyncio.to_thread(Archive, file, passphrase)
    with opened as archive, _alone_in(home) as building:
        if not (building.root / _WHOLE).exists():
            await asyncio.to_thread(_clear, building)
            _must_be_empty(home)
            await _prove(archive)
            found = await _fill(archive, building, tell)
            for butler in archive.manifest.hooks:  # their old tokens are in no backup
                with suppress(SettingsError):
                    tenant = _settings(building, butler).butler.tenant
                    renew_private_tokens(building, butler, tenant)
            replace_file(building.root / _WHOLE, _seal(archive))
        same = (building.root / _WHOLE).read_text("utf-8") == _seal(archive)
        await asyncio.to_thread(_put_in_place, building, home)
        if not same:
            raise Conflict(
                f"an interrupted restore of another backup into {home.root} is complete now; "
                "restore this backup into another home with --home DIR"
            )
        return RestoredHome(archive.manifest, (*_notes(archive.manifest, home), *found))


async def _prove(archive: Archive) -> None:
    """Check that a backup is whole, of a known version, and readable by pg_restore."""
    _check_revisions(archive)
    await asyncio.to_thread(archive.check)
    for butler in archive.manifest.databases:
        if not await dump.count_entries(archive.pieces(dump_of(butler))):
            raise InvalidInput(f"{archive.file}: the database of {butler} is empty")


def _check_revisions(archive: Archive) -> None:
    # Alembic takes longer to import than most commands to run.
    from alembic.util import CommandError  # noqa: PLC0415

    from butlers.db.upgrade import head_revision  # noqa: PLC0415

    revisions = [one for stored in archive.manifest.databases.values() for one in stored.revisions]
    if too_old := retired_revisions(registry.branches(), revisions):
        raise InvalidInput(
            f"{archive.file} has a database of revision {', '.join(too_old)}: {WAY_OUT}"
        )
    try:
        for revision in revisions:
            head_revision(registry.branches(), revision)
    except CommandError:
        raise InvalidInput(
            f"{archive.file} was made by butlers {archive.manifest.version}, whose tables this "
            "version does not know; upgrade butlers first"
        ) from None


async def _fill(archive: Archive, home: Home, tell: Tell, *, only_here: bool = False) -> list[str]:
    """Write the files and load the databases; `only_here`: none on an external server.

    Return what is wrong in the databases, which was so when the backup was made.
    """
    await asyncio.to_thread(_lay_down_files, archive, home)
    found = list[str]()
    server = DatabaseServer(home)
    try:
        if ROLES in archive.manifest.members:
            await server.hold()
            await dump.restore_roles(server.embedded_dsn(), archive.pieces(ROLES))
        for butler, stored in archive.manifest.databases.items():
            tell(f"{butler}: {stored.rows:,} rows")
            here = only_here or not stored.is_external
            section = DatabaseSection() if here else _settings(home, butler).database
            access = await _load(archive, butler, stored, server, section)
            if MemoryModule.migrations and MemoryModule.migrations.head in stored.revisions:
                found += [f"{butler}: {line}" for line in await check_database(butler, access)]
    finally:
        await server.release()
    return found


async def _load(
    archive: Archive,
    butler: str,
    stored: StoredDatabase,
    server: DatabaseServer,
    section: DatabaseSection,
) -> Access:
    access = await server.provide(butler, section)
    if await dump.counts(access.owner_dsn):
        raise Conflict(
            f"the database of {butler} on the server of database.url is not empty; drop it there, "
            "or rename it, if this backup is to take its place"
        )
    pieces = archive.pieces(dump_of(butler))
    await dump.restore(access.owner_dsn, pieces, owners=not (stored.is_external or section.url))
    counts = await dump.counts(access.owner_dsn)
    for table in sorted(counts.keys() | stored.counts.keys()):
        if counts.get(table) != stored.counts.get(table):
            raise IntegrityViolation(
                f"{archive.file}: {table} of {butler} should have {stored.counts.get(table)} rows "
                f"and has {counts.get(table)}; nothing was put in place"
            )
    async with connected(access.owner_dsn) as connection:
        await connection.execute("analyze")
    return access


def _lay_down_files(archive: Archive, home: Home) -> None:
    for member in [name for name in archive.manifest.members if name.startswith(FILES)]:
        path = PurePosixPath(member.removeprefix(FILES))
        if not belongs(path):
            raise InvalidInput(f"{archive.file} was not made by butlers: it holds {path}")
        target = home.root.joinpath(*path.parts)
        for directory in reversed(path.parents):
            home.root.joinpath(directory).mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(target, flags, PRIVATE), "wb") as stream:
            for piece in archive.pieces(member):
                stream.write(piece)
            stream.flush()
            os.fsync(stream.fileno())


def _settings(home: Home, butler: str) -> ButlerSettings:
    return load_butler(home.butler_file(butler), home_file=home.settings_file)


def _notes(manifest: Manifest, home: Home) -> Iterator[str]:
    """Yield notes for the person who restores."""
    for butler, stored in manifest.databases.items():
        try:
            model = fingerprint(_settings(home, butler))
        except SettingsError as error:
            yield error.faults[0]
            continue
        if stored.embedding and model != stored.embedding:
            yield (
                f"{butler} has another embedding model here than its vectors were made by, so it "
                "finds by words alone until `butlers models reembed` has run"
            )
    yield from (f"the backup lacks {what}" for what in manifest.left_out)


@contextmanager
def _alone_in(home: Home) -> Iterator[Home]:
    """Yield the directory to build in, locked; remove it at the end, if not killed before."""
    building = Home(home.restoring_directory)
    is_new = not home.root.exists()
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    building.root.mkdir(mode=0o711, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(building.root, fcntl.LOCK_NB))
        except BlockingIOError:
            raise Conflict(f"another process is restoring into {home.root}") from None
        try:
            yield building
        finally:
            if building.root.exists() and not (building.root / _WHOLE).exists():
                _clear(building)
                with suppress(OSError):
                    building.root.rmdir()
            if is_new:
                with suppress(OSError):  # not empty: the restore succeeded
                    home.root.rmdir()


def _clear(building: Home) -> None:
    _remove_cluster(building)
    for entry in building.root.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _remove_cluster(home: Home) -> None:
    """Stop the server that a killed process left, and remove its data."""
    place = location(home.database_directory)
    if (place / "data" / "postmaster.pid").exists():
        server = EmbeddedPostgres(home.database_directory)
        server.start()
        server.stop()
    shutil.rmtree(place, ignore_errors=True)


def _must_be_empty(home: Home) -> None:
    names = {entry.name for entry in home.root.iterdir()} - {home.restoring_directory.name}
    tokens = (f"hooks/{file.name}" for file in home.root.glob("hooks/*.token"))
    if own := sorted(names - _ANYWHERE) or sorted(tokens):
        raise Conflict(
            f"{home.root} is not empty, it has {', '.join(own[:4])}: restore a backup into an "
            "empty home: choose one with --home DIR, or move this one away"
        )


def _seal(archive: Archive) -> str:
    return f"{archive.manifest.made_at.isoformat()} {archive.manifest.home}\n"


def _put_in_place(building: Home, home: Home) -> None:
    """Move everything into place; after an interruption, continue."""
    entries = {entry.name for entry in building.root.iterdir()} - {_WHOLE}
    for name in sorted(entries, key=lambda name: name == _LAST):
        _move(building.root / name, home.root / name)
    flush_directory(home.root)
    (building.root / _WHOLE).unlink()
    building.root.rmdir()
    flush_directory(home.root)


def _move(entry: Path, target: Path) -> None:
    """Move a file or directory; merge directories, and keep files that exist."""
    if not target.exists():
        entry.rename(target)
    elif entry.is_dir() and target.is_dir():
        for inner in entry.iterdir():
            _move(inner, target / inner.name)
        entry.rmdir()
    else:
        entry.unlink()
