"""Make a backup: a snapshot of every database, the notes and the settings in one file."""

import asyncio
import fcntl
import io
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from butlers import __version__
from butlers.atomic_files import PRIVATE, flush_directory
from butlers.backup import archive
from butlers.backup.archive import Manifest, StoredDatabase, Writing
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


async def make(
    home: Home,
    file: Path,
    tell: Tell = print,
    clock: Clock = utc_now,
    elsewhere: Mapping[str, str] = _NONE,
    passphrase: str = "",
) -> Made:
    """Write a backup of the home, which may be in use; Conflict if the file exists.

    The file appears when it is complete. `elsewhere`: butlers that another home backs up. With a
    passphrase it is encrypted, and nothing of it reaches a disk before.
    """
    began_at = clock()
    if file.exists():
        raise Conflict(f"{file} exists already; choose another name")
    house = load_house(home.settings_file, home.butler_files())
    try:
        with _draft_beside(file) as drafts:
            draft = drafts / file.name
            with open(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE), "w+b") as stream:
                with await asyncio.to_thread(Writing, stream, passphrase) as writing:
                    job = _Job(home, house, writing, tell, elsewhere)
                    manifest = await _write(job, began_at)
                stream.flush()
                await asyncio.to_thread(os.fsync, stream.fileno())
            size = draft.stat().st_size
            draft.rename(file)
            flush_directory(file.parent)
    except OSError as error:
        where = error.filename or file
        raise Unavailable(f"no backup was made: {where}: {error.strerror}") from error
    return Made(file, size, manifest, (clock() - began_at).total_seconds())


@dataclass(frozen=True, slots=True)
class _Job:
    home: Home
    house: HouseSettings
    writing: Writing
    tell: Tell
    elsewhere: Mapping[str, str]
    left_out: list[str] = field(default_factory=list)


async def _write(job: _Job, made_at: datetime) -> Manifest:
    for file in await asyncio.to_thread(archive.home_files, job.home):
        await asyncio.to_thread(_keep_file, job, file)
    async with AsyncExitStack() as stack:
        databases = await _databases(job, stack)
        stored = {
            butler: await _keep_database(job, butler, dsn, is_external)
            for butler, (dsn, is_external) in databases.items()
        }
    names = job.home.butler_names()
    hooks = [name for name in names if job.home.hook_token_file(name).exists()]
    manifest = Manifest(
        format=archive.FORMAT,
        version=__version__,
        made_at=made_at,
        home=str(job.home.root),
        host=socket.gethostname(),
        databases=stored,
        hooks=tuple(hooks),
        left_out=tuple(job.left_out),
        members=job.writing.members,
    )
    await asyncio.to_thread(job.writing.finish, manifest)
    return manifest


def _keep_file(job: _Job, file: Path) -> None:
    name = archive.FILES + file.relative_to(job.home.root).as_posix()
    with suppress(FileNotFoundError):  # of the spool, and stored meanwhile
        image = archive.sqlite_image(file) if archive.is_sqlite(file) else None
        source = file.open("rb") if image is None else io.BytesIO(image)
        with source as stream, job.writing.member(name) as write:
            while piece := stream.read(1024 * 1024):
                write(piece)


async def _databases(job: _Job, stack: AsyncExitStack) -> dict[str, tuple[str, bool]]:
    """Return the address of each butler's database, and whether its server is external.

    The embedded server is started if necessary and runs until the stack ends.
    """
    external = {name: butler for name, butler in job.house.butlers.items() if butler.database.url}
    databases = {
        name: (external_access(butler.database.url, database_name(name)).owner_dsn, True)
        for name, butler in external.items()
        if name not in job.elsewhere
    }
    others = job.elsewhere.items()
    job.left_out.extend(f"the database of {name}: {home} keeps it" for name, home in others)
    job.left_out.extend(
        f"the database of {name}, unless it is on the embedded server: its butler.toml is wrong"
        for name in job.house.failed
    )
    server = DatabaseServer(job.home)
    if server.has_embedded:
        stack.push_async_callback(server.release)
        await server.hold()
        dsn = server.embedded_dsn
        with job.writing.member(archive.ROLES) as write:
            await dump.dump_roles(dsn(), _off_the_loop(write))
        names = [name.removeprefix("butler_") for name in await dump.databases(dsn())]
        databases |= {
            name: (dsn(database_name(name)), False) for name in names if name not in external
        }
    return databases


async def _keep_database(job: _Job, butler: str, dsn: str, is_external: bool) -> StoredDatabase:
    async with dump.snapshot_of(dsn) as state:
        rows = sum(state.counts.values())
        job.tell(f"{butler}: {rows:,} rows in {len(state.counts)} tables")
        revisions = await current_revisions(dsn)
        with job.writing.member(archive.dump_of(butler), squeeze=False) as write:
            await dump.dump(dsn, state, _off_the_loop(write))
    return StoredDatabase(
        revisions=revisions,
        counts=state.counts,
        postgres=state.major,
        is_external=is_external,
        embedding=fingerprint(job.house.butlers.get(butler)),
    )


def _off_the_loop(write: Callable[[bytes], None]) -> dump.Write:
    """Write in a thread, so that the event loop does not wait for the disk."""
    return lambda piece: asyncio.to_thread(write, piece)


def fingerprint(settings: ButlerSettings | None) -> str:
    """Return the version of a butler's embedding model; "" if it is unknown."""
    config = settings.module("memory") if settings else None
    if not isinstance(config, MemoryModuleConfig) or not config.enabled:
        return ""
    with suppress(ButlersError):
        return get_embedding_engine(config.embedding_model_directory or None).version
    return ""


@contextmanager
def _draft_beside(file: Path) -> Iterator[Path]:
    """Make a private directory on the same disk, removed at the end; remove abandoned ones."""
    with ExitStack() as stack:
        with locked(file.parent):  # so that nobody takes ours for an abandoned one
            for left in file.parent.glob(f"{_DRAFTS}*"):
                with suppress(OSError), locked(left, fcntl.LOCK_NB):  # its process is gone
                    shutil.rmtree(left, ignore_errors=True)
            drafts = Path(tempfile.mkdtemp(prefix=_DRAFTS, dir=file.parent))
            stack.enter_context(locked(drafts))
        stack.callback(shutil.rmtree, drafts, ignore_errors=True)
        yield drafts


@contextmanager
def locked(path: Path, how: int = 0) -> Iterator[None]:
    """Hold the lock on a file or directory; a killed process loses it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(descriptor)
