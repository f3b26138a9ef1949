"""Removing a butler: everything that is its own, and what is told about before."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import asyncpg

from butlers.atomic_files import flush_directory
from butlers.auth.token_file import TokenFile
from butlers.auth.tokens import TokenRecord
from butlers.db.address import maintenance_url
from butlers.db.driver_errors import translated_errors
from butlers.db.dump import counts, databases
from butlers.db.login import login_of
from butlers.db.primary_connector import connected
from butlers.db.provision import external_access
from butlers.errors import Conflict
from butlers.host.database import DatabaseServer
from butlers.host.home import Home, butler_settings
from butlers.host.home_tokens import home_tokens
from butlers.sessions.catch_up import Connected, ConnectionFile
from butlers.sessions.spool_entries import Arrival, SpoolEntries
from butlers.settings.names import database_name

_MEMORIES = ("facts", "rules", "episodes", "entities")


@dataclass(frozen=True, slots=True)
class Belongings:
    """What goes with a butler."""

    memories: dict[str, int]
    files: list[str]
    schedule: list[str]
    tokens: list[TokenRecord]
    sessions: list[Arrival]
    connections: list[Connected]
    """The agents that were given it, whose own files are theirs to change."""


async def belongings(home: Home, name: str) -> Belongings:
    """What a butler has; nothing is changed."""
    settings, waiting = butler_settings(home, name), SpoolEntries(home.root)
    arrivals = [*waiting.arrivals(), *waiting.set_aside_before()]
    async with _server_of(home, name) as (maintenance, dsn):
        is_there = database_name(name) in await databases(maintenance) if maintenance else False
        rows = await counts(dsn) if is_there else {}
    return Belongings(
        {kind: rows.get(f"public.{kind}", 0) for kind in _MEMORIES},
        sorted(file.name for file in home.butler_directory(name).iterdir()),
        list(settings.butler.schedule),
        [one.record for one in await home_tokens(home).list_all() if one.record.butler == name],
        [one for one in arrivals if one.butler == name],
        [one for one in ConnectionFile(home.connections_file).all() if one.butler == name],
    )


async def remove(home: Home, name: str) -> Belongings:
    """Remove a butler of a home that nobody serves; cut short, it can be done again."""
    had, tokens = await belongings(home, name), TokenFile(home.tokens_file)
    kept = {one.id for one in tokens.all()}
    async with _server_of(home, name) as (maintenance, _):
        if maintenance:
            await _drop(maintenance, name)
    for token in had.tokens:
        if token.id in kept:  # those that are shared went with the database
            tokens.revoke(token.id)
    for file in (home.hook_token_file(name), home.command_token_file(name)):
        file.unlink(missing_ok=True)
    for connection in had.connections:
        ConnectionFile(home.connections_file).remove(connection)
    for arrival in had.sessions:
        SpoolEntries(home.root).done(arrival)
    # Last, and by a name that no butler has: until then it is listed, and can be removed again.
    gone = home.butlers_directory / f".{name}.removed"
    shutil.rmtree(gone, ignore_errors=True)
    home.butler_directory(name).rename(gone)
    flush_directory(home.butlers_directory)
    shutil.rmtree(gone)
    return had


@asynccontextmanager
async def _server_of(home: Home, name: str) -> AsyncIterator[tuple[str, str]]:
    """Where to sign in to the butler's server, and to its database; "" where there is none yet."""
    url = butler_settings(home, name).database.url
    if url:
        yield maintenance_url(url), external_access(url, database_name(name)).owner_dsn
        return
    server = DatabaseServer(home)
    if not server.has_embedded:
        yield "", ""
        return
    await server.hold()
    try:
        yield server.embedded_dsn(), server.embedded_dsn(database_name(name))
    finally:
        await server.release()


async def _drop(maintenance: str, name: str) -> None:
    try:
        async with connected(maintenance) as connection:
            with translated_errors():
                await connection.execute(f'drop database if exists "{database_name(name)}"')
                with suppress(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(
                        f'drop role if exists "{login_of(database_name(name))}"'
                    )
    except asyncpg.ObjectInUseError:
        raise Conflict(
            f"somebody uses the database of {name}, such as a `butlers mcp` that an agent started; "
            "end that first. Nothing was removed"
        ) from None
