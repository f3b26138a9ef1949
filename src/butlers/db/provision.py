"""Everything a butler's database needs before it can be migrated: server, role, database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from butlers.db import address, tenant_proof
from butlers.db.faults import translated_errors
from butlers.db.login import (
    RUNTIME_ROLE,
    alone,
    close_to_strangers,
    ensure_login,
    restrict,
)
from butlers.db.postgres import Access
from butlers.db.primary_connector import connect
from butlers.errors import Unavailable

_OLDEST_SERVER = 15
_OLDEST_PGVECTOR = "0.8"


def external_access(url: str, database: str) -> Access:
    """On an external server one login owns the schema and steps down to the runtime role."""
    dsn = address.of_database(url, database)
    return Access(dsn, dsn, RUNTIME_ROLE)


async def provision(maintenance_dsn: str, database: str, *, sign_in: bool) -> None:
    """The server is fit, the runtime role exists and the database is there, with vectors.

    `sign_in`: the server is our own, so that the butler has a login, and strangers have nothing.
    """
    async with connected(maintenance_dsn) as connection:
        await check_server(connection)
        await ensure_role(connection, sign_in)
        await _ensure_database(connection, database)
        if sign_in:
            await ensure_login(connection, database)
            await _shut(connection)
    await equip(maintenance_dsn, database, sign_in=sign_in)


async def equip(maintenance_dsn: str, database: str, *, sign_in: bool) -> None:
    """A database that is there has vectors, and keys of its own if it is migrated already."""
    async with connected(maintenance_dsn, database=database) as connection:
        await _ensure_vectors(connection, database)
        if sign_in:
            await restrict(connection)
            if await connection.fetchval(tenant_proof.IS_THERE):
                await connection.execute(tenant_proof.NEW_KEYS)


@asynccontextmanager
async def connected(dsn: str, **options: str | int) -> AsyncIterator[asyncpg.Connection]:
    """A connection of its own for as long as the block lasts."""
    with translated_errors():
        connection = await connect(dsn, **options)
    try:
        yield connection
    finally:
        await connection.close()


async def check_server(connection: asyncpg.Connection) -> None:
    """The server is new enough and can have vectors; otherwise Unavailable says what to do."""
    major = connection.get_server_version().major
    if major < _OLDEST_SERVER:
        raise Unavailable(
            f"database.url: the server runs PostgreSQL {major}; "
            f"upgrade it to {_OLDEST_SERVER} or newer, or leave database.url empty"
        )
    found = await connection.fetchval(
        "select default_version from pg_available_extensions where name = 'vector'"
    )
    if found is None:
        raise Unavailable(
            "database.url: the server lacks pgvector; install the package "
            f"postgresql-{major}-pgvector ({_OLDEST_PGVECTOR} or newer) on it, "
            "or leave database.url empty"
        )
    if _numbers(found) < _numbers(_OLDEST_PGVECTOR):
        raise Unavailable(
            f"database.url: the server has pgvector {found}; upgrade the package "
            f"postgresql-{major}-pgvector to {_OLDEST_PGVECTOR} or newer"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


async def ensure_role(connection: asyncpg.Connection, sign_in: bool) -> None:
    """The runtime role exists; where it is not our server, its login may step down to it."""
    exists = await connection.fetchval("select 1 from pg_roles where rolname = $1", RUNTIME_ROLE)
    remedy = (
        f"may not create or use the role {RUNTIME_ROLE}; as a superuser "
        f"run: CREATE ROLE {RUNTIME_ROLE}; GRANT {RUNTIME_ROLE} TO %user;"
    )
    if not exists:
        await _provide(connection, f"create role {RUNTIME_ROLE} nologin", remedy)
    if not sign_in and not await can_step_down(connection):
        await _provide(connection, f"grant {RUNTIME_ROLE} to current_user", remedy)


async def _shut(connection: asyncpg.Connection) -> None:
    """The databases that came with our server are nobody's, and the role is no login any more."""
    async with alone(connection):
        for database in ("postgres", "template1"):
            await close_to_strangers(connection, database)
        if await connection.fetchval(
            "select 1 from pg_roles where rolname = $1 and rolcanlogin", RUNTIME_ROLE
        ):
            await connection.execute(f"alter role {RUNTIME_ROLE} nologin")


async def can_step_down(connection: asyncpg.Connection) -> bool:
    """Whether the login may act as the runtime role, which may be missing.

    Trying is the only test every version agrees on.
    """
    try:
        await connection.execute(f"set role {RUNTIME_ROLE}; reset role")
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError):
        return False
    return True


async def _provide(connection: asyncpg.Connection, statement: str, remedy: str) -> None:
    """Run what makes something; a login that may not is told by the remedy who has to do it."""
    try:
        await connection.execute(statement)
    except (
        asyncpg.DuplicateObjectError,
        asyncpg.DuplicateDatabaseError,
        asyncpg.UniqueViolationError,
    ):
        pass  # another process was quicker
    except asyncpg.InsufficientPrivilegeError as error:
        user = await connection.fetchval("select current_user")
        told = remedy.replace("%user", user)
        raise Unavailable(f"database.url: user {user} {told}") from error


async def _ensure_database(connection: asyncpg.Connection, database: str) -> None:
    if await connection.fetchval("select 1 from pg_database where datname = $1", database):
        return
    await _provide(
        connection,
        f"create database \"{database}\" encoding 'UTF8' template template0",
        f"may not create the database {database}; as a superuser "
        f"run: CREATE DATABASE {database} OWNER %user;",
    )


async def _ensure_vectors(connection: asyncpg.Connection, database: str) -> None:
    """pgvector is in the database; on many servers only a superuser may put it there."""
    await _provide(
        connection,
        "create extension if not exists vector with schema public",
        f"may not install pgvector; as a superuser, in the database {database}, "
        "run: CREATE EXTENSION vector SCHEMA public;",
    )
    # An upgraded package leaves the databases made before it with the old extension.
    found = await connection.fetchval(
        "select extversion from pg_extension where extname = 'vector'"
    )
    if _numbers(found) < _numbers(_OLDEST_PGVECTOR):
        raise Unavailable(
            f"database.url: the database {database} still uses pgvector {found}; as a superuser, "
            "in that database, run: ALTER EXTENSION vector UPDATE;"
        )
