"""Dump and restore a database as a stream of bytes, by pg_dump and pg_restore."""

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
from butlers.db.primary_connector import connected
from butlers.db.queries import load
from butlers.errors import Unavailable

Write = Callable[[bytes], Awaitable[None]]
_CHUNK_BYTES = 1024 * 1024
# Vectors hardly compress: a higher level costs minutes and saves little.
_COMPRESSION = "gzip:1"
_SQL = load(__file__)
_QUIETLY = ["--no-psqlrc", "--quiet", f"--output={os.devnull}"]
_QUEUED_CHUNKS = 4
_SEARCH_PATH = b"SELECT pg_catalog.set_config('search_path', '', false);\n"
# Enough to build the index of some 300,000 vectors in memory.
_INDEX_MEMORY = b"SET maintenance_work_mem = '512MB';\n"
_TIME_LIMIT = b"SET transaction_timeout = 0;\n"
# A database may name an extension that a restored one can do without.
_DUMP_WITHOUT = "select current_setting('butlers.dump_without', true)"
_HEAD_BYTES = 64 * 1024
_REMEDY = (
    "; a backup needs every tenant's rows, which the user of database.url may not read: as a "
    "superuser run ALTER ROLE that user BYPASSRLS"
)


@dataclass(frozen=True, slots=True)
class DatabaseSnapshot:
    """One consistent state of a database, which pg_dump can write."""

    snapshot: str
    major: int
    counts: dict[str, int]
    without_extension: str | None = None


@asynccontextmanager
async def snapshot_of(dsn: str) -> AsyncIterator[DatabaseSnapshot]:
    """Hold a snapshot of a database during this block, whoever writes meanwhile."""
    async with connected(dsn) as connection:
        with translated_errors():
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                snapshot = await connection.fetchval("select pg_export_snapshot()")
                major = connection.get_server_version().major
                without = await connection.fetchval(_DUMP_WITHOUT)
                yield DatabaseSnapshot(snapshot, major, await _counts(connection), without)


async def counts(dsn: str) -> dict[str, int]:
    """Count the rows of each table."""
    with translated_errors():
        async with connected(dsn) as connection:
            return await _counts(connection)


async def _counts(connection: asyncpg.Connection) -> dict[str, int]:
    """Count all rows; Unavailable where row-level security would hide some."""
    tables = await connection.fetch(_SQL["find_tables"].positional)
    try:
        async with connection.transaction():
            await connection.execute("set local row_security = off")
            return {row["name"]: await connection.fetchval(row["counting"]) for row in tables}
    except asyncpg.InsufficientPrivilegeError as error:
        raise Unavailable(f"{error}{_REMEDY}") from None


async def databases(dsn: str) -> list[str]:
    """List the databases of butlers on the server."""
    with translated_errors():
        async with connected(dsn) as connection:
            rows = await connection.fetch(_SQL["find_databases"].positional)
    return [row["datname"] for row in rows]


async def dump(dsn: str, state: DatabaseSnapshot, write: Write) -> None:
    """Write the database as of a snapshot, in chunks."""
    program = await _program("pg_dump", state.major)
    arguments = ["--format=custom", f"--compress={_COMPRESSION}", f"--snapshot={state.snapshot}"]
    if state.without_extension:
        arguments.append(f"--exclude-extension={state.without_extension}")
    await _run(program, arguments, dsn, write=write)


async def dump_roles(dsn: str, write: Write) -> None:
    """Write the roles of the embedded server."""
    program = await _program("pg_dumpall", 0)
    await _run(program, ["--roles-only"], dsn, write=write)


async def restore_roles(dsn: str, pieces: Iterator[bytes]) -> None:
    """Create the roles that are missing."""
    await _run(await _program("psql", 0), _QUIETLY, dsn, pieces=_each(pieces))


async def restore(dsn: str, pieces: Iterator[bytes], *, owners: bool) -> None:
    """Fill an empty database; `owners`: objects keep their owners."""
    unpack, load = await _program("pg_restore", 0), await _program("psql", 0)
    script: asyncio.Queue[bytes] = asyncio.Queue(_QUEUED_CHUNKS)
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


async def count_entries(pieces: Iterator[bytes]) -> int:
    """Count the entries of a dump; Unavailable where it is not one."""
    output: list[bytes] = []

    async def write(piece: bytes) -> None:
        output.append(piece)

    program = await _program("pg_restore", 0)
    await _run(program, ["--list"], "", pieces=_each(pieces), write=write)
    return sum(not line.startswith(b";") for line in b"".join(output).splitlines())


async def _each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Read chunks from a disk without blocking the event loop."""
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


async def _adapted(script: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    """Yield pg_restore's script with two changes.

    It empties the search path, although triggers use operators of pgvector without a schema. It
    sets a time limit that servers before 17 do not know.
    """
    head = b""
    while piece := await script.get():
        head += piece
        if _SEARCH_PATH in head or len(head) > _HEAD_BYTES:
            yield head.replace(_SEARCH_PATH, _INDEX_MEMORY, 1).replace(_TIME_LIMIT, b"", 1)
            break
    else:
        yield head
    while piece := await script.get():
        yield piece


async def _program(name: str, major: int) -> Path:
    """Find a program of this major version or a newer one."""
    too_old: list[str] = []
    for path in _programs(name):
        version = re.search(rb"\(PostgreSQL\) (\d+)", await _output_of(path, "--version"))
        if version and int(version[1]) >= major:
            return path
        too_old += [f"{path} is of version {int(version[1])}"] if version else []
    raise Unavailable(
        f"the server runs PostgreSQL {major}, and {'; '.join(too_old) or f'there is no {name}'}: "
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
    """Run a program, passing its output to `write` and `pieces` to its input."""
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
    lines = complaints.splitlines() or ["no output"]
    reason = next((line for line in lines if "error:" in line.lower()), lines[-1])
    return Unavailable(f"{name} failed: {reason}")


async def _read(process: asyncio.subprocess.Process, write: Write | None) -> None:
    if process.stdout is not None and write is not None:
        while piece := await process.stdout.read(_CHUNK_BYTES):
            await write(piece)


async def _feed(process: asyncio.subprocess.Process, pieces: AsyncIterator[bytes] | None) -> None:
    if process.stdin is None or pieces is None:
        return
    # A program that has read enough, or failed, closes its input; its exit code counts.
    with suppress(BrokenPipeError, ConnectionResetError):
        async for piece in pieces:
            process.stdin.write(piece)
            await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()


def _signed_in(dsn: str) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and environment for a database; arguments show no password."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    environment = kept | {"LC_ALL": "C", "PGCONNECT_TIMEOUT": "10"}
    if not dsn:
        return [], environment
    bare, password = without_password(dsn)
    signing = {} if password is None else {"PGPASSWORD": password}
    return [f"--dbname={bare}"], environment | signing
