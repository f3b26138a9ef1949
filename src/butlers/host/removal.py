"""Remove a butler, and list before what will be removed."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import asyncpg

from butlers.atomic_files import flush_directory
from butlers.auth.tokens import TokenFile, TokenRecord
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
    """Everything that is removed with a butler."""

    memories: dict[str, int]
    files: list[str]
    schedule: list[str]
    tokens: list[TokenRecord]
    sessions: list[Arrival]
    connections: list[Connected]
    """The agents connected to it; their own files are not changed."""


async def belongings(home: Home, name: str) -> Belongings:
    """Return what a butler has; nothing is changed."""
    spool = SpoolEntries(home.root)
    sessions = [*spool.arrivals(), *spool.set_aside_before()]
    async with _server_of(home, name) as (maintenance, dsn):
        exists = database_name(name) in await databases(maintenance) if maintenance else False
        rows = await counts(dsn) if exists else {}
    tokens = [token.record for token in await home_tokens(home).list_all()]
    agents = ConnectionFile(home.connections_file).all()
    return Belongings(
        {kind: rows.get(f"public.{kind}", 0) for kind in _MEMORIES},
        sorted(file.name for file in home.butler_directory(name).iterdir()),
        list(butler_settings(home, name).butler.schedule),
        [token for token in tokens if token.butler == name],
        [session for session in sessions if session.butler == name],
        [agent for agent in agents if agent.butler == name],
    )


async def remove(home: Home, name: str) -> Belongings:
    """Remove a butler of a home that nobody serves; if interrupted, it can be run again."""
    removed, tokens = await belongings(home, name), TokenFile(home.tokens_file)
    in_file = {record.id for record in tokens.all()}
    async with _server_of(home, name) as (maintenance, _):
        if maintenance:
            await _drop(maintenance, name)
    for token in removed.tokens:
        if token.id in in_file:  # the others were in the database
            tokens.revoke(token.id)
    for file in (home.hook_token_file(name), home.command_token_file(name)):
        file.unlink(missing_ok=True)
    for connection in removed.connections:
        ConnectionFile(home.connections_file).remove(connection)
    for arrival in removed.sessions:
        SpoolEntries(home.root).done(arrival)
    # Last, so that until then the butler is listed and can be removed again.
    gone = home.butlers_directory / f".{name}.removed"
    shutil.rmtree(gone, ignore_errors=True)
    home.butler_directory(name).rename(gone)
    flush_directory(home.butlers_directory)
    shutil.rmtree(gone)
    return removed


@asynccontextmanager
async def _server_of(home: Home, name: str) -> AsyncIterator[tuple[str, str]]:
    """Yield the DSNs of the butler's server and database; "" if there are none yet."""
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
    database = database_name(name)
    try:
        async with connected(maintenance) as connection:
            with translated_errors():
                await connection.execute(f'drop database if exists "{database}"')
                with suppress(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(f'drop role if exists "{login_of(database)}"')
    except asyncpg.ObjectInUseError:
        raise Conflict(
            f"the database of {name} is in use, for example by a `butlers mcp` that an agent "
            "started; stop that first. Nothing was removed"
        ) from None
