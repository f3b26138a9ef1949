"""Create what a butler's database needs before it can be migrated: role, database, pgvector."""

from contextlib import suppress

import asyncpg

from butlers.db import address, tenant_proof
from butlers.db.login import RUNTIME_ROLE, close_to_strangers, ensure_login, restrict, roles_locked
from butlers.db.postgres import Access
from butlers.db.primary_connector import connected
from butlers.errors import Unavailable

_OLDEST_SERVER = 15
_OLDEST_PGVECTOR = "0.8"


def external_access(url: str, database: str) -> Access:
    """Return access by one login that owns the schema and sets the runtime role for requests."""
    dsn = address.of_database(url, database)
    return Access(dsn, dsn, RUNTIME_ROLE)


async def provision(maintenance_dsn: str, database: str, *, sign_in: bool) -> None:
    """Check the server; create the runtime role, the database and pgvector where missing.

    `sign_in`: the server is ours, so the butler gets a login and everybody else loses access.
    """
    async with connected(maintenance_dsn) as connection:
        await check_server(connection)
        await ensure_role(connection, sign_in)
        await ensure_database(connection, database)
        if sign_in:
            await ensure_login(connection, database)
            await _close_server(connection)
    await equip(maintenance_dsn, database, sign_in=sign_in)


async def equip(maintenance_dsn: str, database: str, *, sign_in: bool) -> None:
    """Add pgvector to a database, and keys of its own if it is a copy of a migrated one."""
    async with connected(maintenance_dsn, database=database) as connection:
        await _ensure_vectors(connection, database)
        if sign_in:
            await restrict(connection)
            if await connection.fetchval(tenant_proof.IS_THERE):
                await connection.execute(tenant_proof.NEW_KEYS)


async def check_server(connection: asyncpg.Connection) -> None:
    """Raise Unavailable, with what to do, where PostgreSQL or pgvector is too old or missing."""
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
    """Create the runtime role; on an external server also grant it to the login."""
    exists = await connection.fetchval("select 1 from pg_roles where rolname = $1", RUNTIME_ROLE)
    remedy = (
        f"may not create or use the role {RUNTIME_ROLE}; as a superuser "
        f"run: CREATE ROLE {RUNTIME_ROLE}; GRANT {RUNTIME_ROLE} TO %user;"
    )
    if not exists:
        await _create(connection, f"create role {RUNTIME_ROLE} nologin", remedy)
    if not sign_in and not await can_set_role(connection):
        await _create(connection, f"grant {RUNTIME_ROLE} to current_user", remedy)


async def _close_server(connection: asyncpg.Connection) -> None:
    """Close the databases that our server came with; the runtime role may not connect."""
    async with roles_locked(connection):
        for database in ("postgres", "template1"):
            await close_to_strangers(connection, database)
        if await connection.fetchval(
            "select 1 from pg_roles where rolname = $1 and rolcanlogin", RUNTIME_ROLE
        ):
            await connection.execute(f"alter role {RUNTIME_ROLE} nologin")


async def can_set_role(connection: asyncpg.Connection) -> bool:
    """Return whether the login may act as the runtime role; only trying shows it everywhere."""
    with suppress(asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError):
        await connection.execute(f"set role {RUNTIME_ROLE}; reset role")
        return True
    return False


async def _create(connection: asyncpg.Connection, statement: str, remedy: str) -> None:
    """Run a statement that creates something; Unavailable names the remedy if not allowed."""
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
        message = remedy.replace("%user", user)
        raise Unavailable(f"database.url: user {user} {message}") from error


async def ensure_database(connection: asyncpg.Connection, database: str) -> None:
    """Create an empty database if it is missing."""
    if await connection.fetchval("select 1 from pg_database where datname = $1", database):
        return
    await _create(
        connection,
        f"create database \"{database}\" encoding 'UTF8' template template0",
        f"may not create the database {database}; as a superuser "
        f"run: CREATE DATABASE {database} OWNER %user;",
    )


async def _ensure_vectors(connection: asyncpg.Connection, database: str) -> None:
    """Create pgvector, which on many servers only a superuser may; refuse an old one."""
    await _create(
        connection,
        "create extension if not exists vector with schema public",
        f"may not install pgvector; as a superuser, in the database {database}, "
        "run: CREATE EXTENSION vector SCHEMA public;",
    )
    # Upgrading the package does not upgrade the extension of existing databases.
    found = await connection.fetchval(
        "select extversion from pg_extension where extname = 'vector'"
    )
    if _numbers(found) < _numbers(_OLDEST_PGVECTOR):
        raise Unavailable(
            f"database.url: the database {database} still uses pgvector {found}; as a superuser, "
            "in that database, run: ALTER EXTENSION vector UPDATE;"
        )


_TABLES = """
select quote_ident(relname) from pg_class
where relkind = 'r' and relnamespace = 'public'::regnamespace
  and pg_has_role(relowner, 'USAGE')
order by relname
"""
# Holds frequent values of columns; only a superuser may rewrite it.
_STATISTICS = "pg_catalog.pg_statistic"


async def rewrite_tables(owner_dsn: str) -> list[str]:
    """Rewrite every table so that deleted rows leave the files; return what may not be rewritten.

    Each table is locked while it is rewritten.
    """
    skipped: list[str] = []
    async with connected(owner_dsn) as connection:
        for row in await connection.fetch(_TABLES):
            await connection.execute(f"vacuum (full, analyze) {row[0]}")
        try:
            await connection.execute(f"vacuum (full) {_STATISTICS}")
            await connection.execute("checkpoint")
        except asyncpg.InsufficientPrivilegeError:
            skipped.append(_STATISTICS)
    return skipped
