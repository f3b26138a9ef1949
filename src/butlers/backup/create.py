"""Making a backup: one moment of every database, the notes and the settings, in one file."""

import asyncio
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

from butlers import __version__
from butlers.atomic_files import PRIVATE, flush_directory
from butlers.backup.archive import (
    FILES,
    FORMAT,
    ROLES,
    Manifest,
    StoredDatabase,
    Writing,
    copy_sqlite,
    dump_of,
    home_files,
    hooks_of,
    is_sqlite,
)
from butlers.clock import Clock, utc_now
from butlers.db import dump
from butlers.db.migrate import current_revisions
from butlers.db.provision import external_access
from butlers.embedding import get_embedding_engine
from butlers.errors import ButlersError, Conflict, Unavailable
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.memory.settings import MemoryModuleConfig
from butlers.settings.files import HouseSettings, load_house
from butlers.settings.names import database_name
from butlers.settings.sections import ButlerSettings

Tell = Callable[[str], None]
_DRAFTS = ".butlers-backup-"
_NONE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that was written."""

    file: Path
    bytes: int
    manifest: Manifest
    seconds: float


@dataclass(frozen=True, slots=True)
class _BackedUpDatabase:
    """A database that a backup holds."""

    butler: str
    dsn: str
    is_external: bool = False


async def make(
    home: Home,
    file: Path,
    tell: Tell = print,
    clock: Clock = utc_now,
    elsewhere: Mapping[str, str] = _NONE,
) -> Made:
    """Write a backup of the home, which may be in use; nothing bears its name until it is whole.

    `elsewhere`: butlers whose databases another home keeps, and which.
    """
    began_at = clock()
    if file.exists():
        raise Conflict(f"there is a file {file} already; name another one")
    house = load_house(home.settings_file, home.butler_files())
    with _explained(file), _draft_beside(file) as drafts:
        draft = drafts / file.name
        with open(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE), "w+b") as stream:
            with Writing(stream) as writing:
                job = _Job(home, house, writing, drafts, tell, elsewhere)
                manifest = await _write(job, began_at)
            await asyncio.to_thread(_flush, stream)
        size = draft.stat().st_size
        draft.rename(file)
        flush_directory(file.parent)
    return Made(file, size, manifest, (clock() - began_at).total_seconds())


@dataclass(frozen=True, slots=True)
class _Job:
    home: Home
    house: HouseSettings
    writing: Writing
    drafts: Path
    tell: Tell
    elsewhere: Mapping[str, str]
    left_out: list[str] = field(default_factory=list)


async def _write(job: _Job, made_at: datetime) -> Manifest:
    for file in await asyncio.to_thread(home_files, job.home):
        await asyncio.to_thread(_keep_file, job, file)
    async with AsyncExitStack() as stack:
        found = await _databases(job, stack)
        stored = {one.butler: await _keep_database(job, one) for one in found}
    manifest = Manifest(
        format=FORMAT,
        version=__version__,
        made_at=made_at,
        home=str(job.home.root),
        host=socket.gethostname(),
        databases=stored,
        hooks=hooks_of(job.home),
        left_out=tuple(job.left_out),
        members=job.writing.members,
    )
    await asyncio.to_thread(job.writing.finish, manifest)
    return manifest


def _keep_file(job: _Job, file: Path) -> None:
    name = FILES + file.relative_to(job.home.root).as_posix()
    with suppress(FileNotFoundError):  # of the spool, and stored meanwhile
        source = _still(file, job.drafts) if is_sqlite(file) else file
        with source.open("rb") as stream, job.writing.member(name) as write:
            while piece := stream.read(1024 * 1024):
                write(piece)


def _still(file: Path, drafts: Path) -> Path:
    """A copy of a database that nobody writes to."""
    copy = drafts / "copy.sqlite"
    copy.unlink(missing_ok=True)
    copy_sqlite(file, copy)
    return copy


async def _databases(job: _Job, stack: AsyncExitStack) -> list[_BackedUpDatabase]:
    """Every butler's database; the embedded server is held, and started where it does not run."""
    external = {name: one for name, one in job.house.butlers.items() if one.database.url}
    found = [
        _BackedUpDatabase(
            name, external_access(one.database.url, database_name(name)).owner_dsn, True
        )
        for name, one in external.items()
        if name not in job.elsewhere
    ]
    kept = job.elsewhere.items()
    job.left_out.extend(f"the database of {name}: {home} keeps it" for name, home in kept)
    job.left_out.extend(
        f"the database of {name}, unless it is on the embedded server: its butler.toml is wrong"
        for name in job.house.failed
    )
    server = DatabaseServer(job.home)
    if server.has_embedded:
        stack.push_async_callback(server.release)
        await server.hold()
        dsn = server.embedded_dsn
        with job.writing.member(ROLES) as write:
            await dump.dump_roles(dsn(), _off_the_loop(write))
        names = [one.removeprefix("butler_") for one in await dump.databases(dsn())]
        found += [
            _BackedUpDatabase(one, dsn(database_name(one))) for one in names if one not in external
        ]
    return found


async def _keep_database(job: _Job, found: _BackedUpDatabase) -> StoredDatabase:
    async with dump.snapshot_of(found.dsn) as state:
        rows = sum(state.counts.values())
        job.tell(f"{found.butler}: {rows:,} rows in {len(state.counts)} tables")
        revisions = await current_revisions(found.dsn)
        with job.writing.member(dump_of(found.butler), squeeze=False) as write:
            await dump.dump(found.dsn, state, _off_the_loop(write))
    return StoredDatabase(
        revisions=revisions,
        counts=state.counts,
        postgres=state.major,
        is_external=found.is_external,
        embedding=fingerprint(job.house.butlers.get(found.butler)),
    )


def _off_the_loop(write: Callable[[bytes], None]) -> dump.Write:
    """Writing to a disk may take a while; whoever is served by this process does not wait."""

    async def written(piece: bytes) -> None:
        await asyncio.to_thread(write, piece)

    return written


def fingerprint(settings: ButlerSettings | None) -> str:
    """What tells a butler's vectors from those of another model; "" where it cannot be known."""
    config = settings.module("memory") if settings else None
    if not isinstance(config, MemoryModuleConfig) or not config.enabled:
        return ""
    with suppress(ButlersError):
        return get_embedding_engine(config.embedding_model_directory or None).version
    return ""


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or file
        raise Unavailable(f"no backup was made: {where}: {error.strerror}") from error


@contextmanager
def _draft_beside(file: Path) -> Iterator[Path]:
    """A private directory on the same disk, removed at the end; those of the killed are too."""
    with ExitStack() as stack:
        with locked(file.parent):  # so that nobody takes ours for what a process left
            for left in file.parent.glob(f"{_DRAFTS}*"):
                _remove_if_left(left)
            drafts = Path(tempfile.mkdtemp(prefix=_DRAFTS, dir=file.parent))
            stack.enter_context(locked(drafts))
        stack.callback(shutil.rmtree, drafts, ignore_errors=True)
        yield drafts


def _remove_if_left(drafts: Path) -> None:
    """Remove the drafts of a process that was killed; one that lives holds a lock on them."""
    with suppress(OSError), locked(drafts, fcntl.LOCK_NB):
        shutil.rmtree(drafts, ignore_errors=True)


@contextmanager
def locked(path: Path, how: int = 0) -> Iterator[None]:
    """Within this block nobody else has the lock on a file or directory, which the killed lose."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(descriptor)


def _flush(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())
