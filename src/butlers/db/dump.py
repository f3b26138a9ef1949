"""A database as a stream of bytes: one moment of it, written by pg_dump and read by pg_restore."""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from butlers.db.address import without_password
from butlers.db.driver_errors import translated_errors
from butlers.db.embedded.binaries import installed
from butlers.db.provision import connected
from butlers.db.queries import load
from butlers.errors import Unavailable

Write = Callable[[bytes], Awaitable[None]]
_PIECE_BYTES = 1024 * 1024
# Vectors are most of a database and hardly shrink: more effort costs minutes and saves little.
_COMPRESSION = "gzip:1"
_SQL = load(__file__)
_QUIETLY = ["--no-psqlrc", "--quiet", f"--output={os.devnull}"]
_AHEAD = 4
_SEARCH_PATH = b"SELECT pg_catalog.set_config('search_path', '', false);\n"
# What the index of some 300,000 vectors takes while it is made; beyond, it takes ever longer.
_ROOM = b"SET maintenance_work_mem = '512MB';\n"
_TIME_LIMIT = b"SET transaction_timeout = 0;\n"
# A database may name an extension that a restored one can do without.
_DUMP_WITHOUT = "select current_setting('butlers.dump_without', true)"
_HEAD_BYTES = 64 * 1024
_REMEDY = (
    "; a backup needs every tenant's rows, which the user of database.url may not read: as a "
    "superuser run ALTER ROLE that user BYPASSRLS"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """One consistent state of a database, which pg_dump can be told to write."""

    snapshot: str
    major: int
    counts: dict[str, int]
    without_extension: str | None = None


@asynccontextmanager
async def moment_of(dsn: str) -> AsyncIterator[Moment]:
    """The state of a database now, for as long as the block lasts, whoever writes meanwhile."""
    async with connected(dsn) as connection:
        with translated_errors():
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                snapshot = await connection.fetchval("select pg_export_snapshot()")
                major = connection.get_server_version().major
                without = await connection.fetchval(_DUMP_WITHOUT)
                yield Moment(snapshot, major, await _counts(connection), without)


async def counts(dsn: str) -> dict[str, int]:
    """How many rows each table has now."""
    with translated_errors():
        async with connected(dsn) as connection:
            return await _counts(connection)


async def _counts(connection: asyncpg.Connection) -> dict[str, int]:
    """Every row, or a refusal: a login from which rows are hidden must not count what it sees."""
    tables = await connection.fetch(_SQL["find_tables"].positional)
    try:
        async with connection.transaction():
            await connection.execute("set local row_security = off")
            return {one["name"]: await connection.fetchval(one["counting"]) for one in tables}
    except asyncpg.InsufficientPrivilegeError as error:
        raise Unavailable(f"{error}{_REMEDY}") from None


async def databases(dsn: str) -> list[str]:
    """The databases of butlers on the server."""
    with translated_errors():
        async with connected(dsn) as connection:
            rows = await connection.fetch(_SQL["find_databases"].positional)
    return [row["datname"] for row in rows]


async def dump(dsn: str, moment: Moment, write: Write) -> None:
    """Write the database as it is at that moment, piece by piece."""
    program = await _program("pg_dump", moment.major)
    arguments = ["--format=custom", f"--compress={_COMPRESSION}", f"--snapshot={moment.snapshot}"]
    if moment.without_extension:
        arguments.append(f"--exclude-extension={moment.without_extension}")
    await _run(program, arguments, dsn, write=write)


async def dump_roles(dsn: str, write: Write) -> None:
    """Write the roles of a server that is ours alone."""
    program = await _program("pg_dumpall", 0)
    await _run(program, ["--roles-only"], dsn, write=write)


async def restore_roles(dsn: str, pieces: Iterator[bytes]) -> None:
    """Make the roles that are missing; of those that are there it says so and goes on."""
    await _run(await _program("psql", 0), _QUIETLY, dsn, pieces=_each(pieces))


async def restore(dsn: str, pieces: Iterator[bytes], *, owners: bool) -> None:
    """Fill an empty database; `owners`: each object belongs to the role it belonged to."""
    unpack, load = await _program("pg_restore", 0), await _program("psql", 0)
    script: asyncio.Queue[bytes] = asyncio.Queue(_AHEAD)
    arguments = ["--file=-", *([] if owners else ["--no-owner"])]

    async def unpacked() -> None:
        try:
            await _run(unpack, arguments, "", pieces=_each(pieces), write=script.put)
        finally:
            await script.put(b"")

    unpacking = asyncio.create_task(unpacked())
    try:
        stopping = [*_QUIETLY, "--set=ON_ERROR_STOP=1"]
        await _run(load, stopping, dsn, pieces=_adapted(script))
        await unpacking
    finally:
        unpacking.cancel()
        await asyncio.gather(unpacking, return_exceptions=True)


async def listed(pieces: Iterator[bytes]) -> int:
    """How many things a dump lists; Unavailable where it is none."""
    told: list[bytes] = []

    async def write(piece: bytes) -> None:
        told.append(piece)

    program = await _program("pg_restore", 0)
    await _run(program, ["--list"], "", pieces=_each(pieces), write=write)
    return sum(not line.startswith(b";") for line in b"".join(told).splitlines())


async def _each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces that are read from a disk, while the event loop does other things."""
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


async def _adapted(script: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    """A script that pg_restore wrote, without what does harm, from the queue it comes by.

    It empties the search path, though it writes operators of pgvector in triggers as if there
    was one. All else in it names its schema. The time limit is unknown to servers before 17.
    """
    head = b""
    while piece := await script.get():
        head += piece
        if _SEARCH_PATH in head or len(head) > _HEAD_BYTES:
            yield head.replace(_SEARCH_PATH, _ROOM, 1).replace(_TIME_LIMIT, b"", 1)
            break
    else:
        yield head
    while piece := await script.get():
        yield piece


async def _program(name: str, major: int) -> Path:
    """The program, of this major version or a newer one."""
    found: list[str] = []
    for path in _programs(name):
        version = re.search(rb"\(PostgreSQL\) (\d+)", await _output_of(path, "--version"))
        if version and int(version[1]) >= major:
            return path
        found += [f"{path} is of version {int(version[1])}"] if version else []
    raise Unavailable(
        f"the server runs PostgreSQL {major}, and {'; '.join(found) or f'there is no {name}'}: "
        f"install the package postgresql-client-{major}, whose {name} must be in the PATH"
    )


def _programs(name: str) -> Iterator[Path]:
    with suppress(Unavailable):
        yield installed() / name
    elsewhere = shutil.which(name)
    if elsewhere:
        yield Path(elsewhere)


async def _output_of(*command: str | Path) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe)
    return (await process.communicate())[0]


async def _run(
    program: Path,
    arguments: list[str],
    dsn: str,
    *,
    write: Write | None = None,
    pieces: AsyncIterator[bytes] | None = None,
) -> None:
    """Run to its end, handing over what it writes and giving it what it reads."""
    where, environment = _signed_in(dsn)
    with tempfile.TemporaryFile() as complaints:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            *where,
            env=environment,
            stdin=asyncio.subprocess.PIPE if pieces else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if write else asyncio.subprocess.DEVNULL,
            stderr=complaints,
            start_new_session=True,
        )
        try:
            await asyncio.gather(_read(process, write), _feed(process, pieces))
            code = await process.wait()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        complaints.seek(0)
        if code:
            raise _failure(program.name, complaints.read().decode(errors="replace"))


def _failure(name: str, complaints: str) -> Unavailable:
    lines = complaints.splitlines() or ["it said nothing"]
    words = next((line for line in lines if "error:" in line.lower()), lines[-1])
    return Unavailable(f"{name} failed: {words}")


async def _read(process: asyncio.subprocess.Process, write: Write | None) -> None:
    if process.stdout is not None and write is not None:
        while piece := await process.stdout.read(_PIECE_BYTES):
            await write(piece)


async def _feed(process: asyncio.subprocess.Process, pieces: AsyncIterator[bytes] | None) -> None:
    if process.stdin is None or pieces is None:
        return
    # A program that has read enough, or failed, closes its end; what it says then counts.
    with suppress(BrokenPipeError, ConnectionResetError):
        async for piece in pieces:
            process.stdin.write(piece)
            await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()


def _signed_in(dsn: str) -> tuple[list[str], dict[str, str]]:
    """How a program is told of a database: anybody may read its arguments, so no password there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    environment = kept | {"LC_ALL": "C", "PGCONNECT_TIMEOUT": "10"}
    if not dsn:
        return [], environment
    bare, password = without_password(dsn)
    signing = {} if password is None else {"PGPASSWORD": password}
    return [f"--dbname={bare}"], environment | signing
