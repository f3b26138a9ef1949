"""A PostgreSQL login for each butler, with rights in its own database alone.

On the embedded server it connects over the private socket. On an external server it is created if
the login of `database.url` may create roles, and has a password that only the database's owner can
read; otherwise requests use that login and `set role` to the runtime role.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from butlers.db import address
from butlers.db.driver_errors import translated_errors
from butlers.db.postgres import Access
from butlers.db.primary_connector import connected
from butlers.db.tenant_proof import read_keys
from butlers.errors import ButlersError

RUNTIME_ROLE = "butlers_runtime"
"""The role with the rights of requests; it owns nothing."""

_LOCK = "select pg_advisory_xact_lock(hashtextextended('butlers.login', 0))"
# Functions that write outside row-level security, or end other sessions.
_UNPOLICED = (
    "lo_creat(integer)", "lo_create(oid)", "lo_from_bytea(oid, bytea)",
    "lo_put(oid, bigint, bytea)", "lowrite(integer, bytea)", "lo_open(oid, integer)",
    "lo_unlink(oid)", "pg_terminate_backend(integer, bigint)", "pg_cancel_backend(integer)",
)  # fmt: skip


def login_of(database: str) -> str:
    """Return the name of a butler's login."""
    return f"{database}_runtime"


@asynccontextmanager
async def roles_locked(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """Open a transaction in which no other process changes roles and rights."""
    async with connection.transaction():
        await connection.execute(_LOCK)
        yield


async def ensure_login(connection: asyncpg.Connection, database: str, password: str = "") -> None:
    """Create the login if missing, give it the runtime role, and close the database to others."""
    login = login_of(database)
    async with roles_locked(connection):
        if not await connection.fetchval("select 1 from pg_roles where rolname = $1", login):
            await connection.execute(f'create role "{login}" login')
            await connection.execute(f'grant {RUNTIME_ROLE} to "{login}"')
        if password:
            await connection.execute(f"alter role \"{login}\" password '{password}'")
        await connection.execute(f'grant connect on database "{database}" to "{login}"')
        await close_to_strangers(connection, database)


async def close_to_strangers(connection: asyncpg.Connection, database: str) -> None:
    """Revoke from everybody the rights to connect and to create temporary tables."""
    open_to_all = "select has_database_privilege('public', $1, 'connect, temporary')"
    if await connection.fetchval(open_to_all, database):
        await connection.execute(f'revoke connect, temporary on database "{database}" from public')


async def restrict(connection: asyncpg.Connection) -> None:
    """Revoke functions that bypass row-level security; needs a superuser."""
    async with roles_locked(connection):
        if await connection.fetchval(
            "select has_function_privilege('public', 'lo_create(oid)', 'execute')"
        ):
            for function in _UNPOLICED:
                await connection.execute(f"revoke execute on function {function} from public")
            await connection.execute("revoke create on schema public from public")


async def own_login(access: Access, database: str) -> Access:
    """Return access by the butler's own login, created if we may; else the access given."""
    async with connected(access.owner_dsn) as owner:
        try:
            password = (await read_keys(owner)).password()
            signed_in = address.signed_in(access.owner_dsn, login_of(database), password)
            if not await _can_connect(signed_in):
                await ensure_login(owner, database, password)
        except asyncpg.PostgresError:
            return access
    return Access(access.owner_dsn, signed_in) if await _can_connect(signed_in) else access


async def signs_in(access: Access, database: str) -> bool:
    """Return whether a butler can connect by its own login; creates nothing."""
    with translated_errors():
        async with connected(access.owner_dsn) as owner:
            password = (await read_keys(owner)).password()
    return await _can_connect(address.signed_in(access.owner_dsn, login_of(database), password))


async def _can_connect(dsn: str) -> bool:
    """Return whether a statement runs there: a pooler may connect although its server refuses."""
    try:
        async with connected(dsn) as connection:
            await connection.execute("select 1")
    except (ButlersError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        return False
    return True
