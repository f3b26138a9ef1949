"""A login for each butler, with rights in its own database alone.

On the embedded server it signs in over the private socket. On a server of somebody's it is made
where the login of `database.url` may make one, and signs in with a password that only the
database's owner can read; where it may not, requests step down from that login as far as they can.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from butlers.db import address
from butlers.db.faults import translated_errors
from butlers.db.postgres import Access
from butlers.db.primary_connector import connect
from butlers.db.tenant_proof import read_keys

RUNTIME_ROLE = "butlers_runtime"
"""What every login may do within a database: the role that owns nothing."""

_ONE_AT_A_TIME = "select pg_advisory_xact_lock(hashtextextended('butlers.login', 0))"
# Whoever may call these writes where no policy looks, or ends what others are doing.
_UNPOLICED = (
    "lo_creat(integer)", "lo_create(oid)", "lo_from_bytea(oid, bytea)",
    "lo_put(oid, bigint, bytea)", "lowrite(integer, bytea)", "lo_open(oid, integer)",
    "lo_unlink(oid)", "pg_terminate_backend(integer, bigint)", "pg_cancel_backend(integer)",
)  # fmt: skip


def login_of(database: str) -> str:
    """The login of a butler by its database."""
    return f"{database}_runtime"


@asynccontextmanager
async def alone(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """One transaction in which nobody else changes who may do what."""
    async with connection.transaction():
        await connection.execute(_ONE_AT_A_TIME)
        yield


async def ensure_login(connection: asyncpg.Connection, database: str, password: str = "") -> None:
    """The login exists, may do what requests do, and nobody else may enter the database."""
    login = login_of(database)
    async with alone(connection):
        if not await connection.fetchval("select 1 from pg_roles where rolname = $1", login):
            await connection.execute(f'create role "{login}" login')
            await connection.execute(f'grant {RUNTIME_ROLE} to "{login}"')
        if password:
            await connection.execute(f"alter role \"{login}\" password '{password}'")
        await connection.execute(f'grant connect on database "{database}" to "{login}"')
        await close_to_strangers(connection, database)


async def close_to_strangers(connection: asyncpg.Connection, database: str) -> None:
    """Whoever was not let in by name may neither enter a database nor leave tables in it."""
    open_to_all = "select has_database_privilege('public', $1, 'connect, temporary')"
    if await connection.fetchval(open_to_all, database):
        await connection.execute(f'revoke connect, temporary on database "{database}" from public')


async def restrict(connection: asyncpg.Connection) -> None:
    """What no policy looks at is left to the superuser, whose connection this is."""
    async with alone(connection):
        if await connection.fetchval(
            "select has_function_privilege('public', 'lo_create(oid)', 'execute')"
        ):
            for function in _UNPOLICED:
                await connection.execute(f"revoke execute on function {function} from public")
            await connection.execute("revoke create on schema public from public")


async def own_login(access: Access, database: str) -> Access:
    """How to reach an external database by the butler's own login, which is made where we may.

    Where neither can be, the access is the one given: a login that steps down.
    """
    with translated_errors():
        owner = await connect(access.owner_dsn)
    try:
        password = (await read_keys(owner)).password()
        signed_in = address.signed_in(access.owner_dsn, login_of(database), password)
        if not await _is_welcome(signed_in):
            await ensure_login(owner, database, password)
    except asyncpg.PostgresError:
        return access
    finally:
        await owner.close()
    return Access(access.owner_dsn, signed_in) if await _is_welcome(signed_in) else access


async def signs_in(access: Access, database: str) -> bool:
    """Whether a butler has its own login at an external server; nothing is made for it."""
    with translated_errors():
        owner = await connect(access.owner_dsn)
        try:
            password = (await read_keys(owner)).password()
        finally:
            await owner.close()
    signed_in = address.signed_in(access.owner_dsn, login_of(database), password)
    return await _is_welcome(signed_in)


async def _is_welcome(dsn: str) -> bool:
    """Whether the server lets this login in; it may ask for more than a password.

    A pooler may, and then be let in by no server: only a statement tells.
    """
    try:
        connection = await connect(dsn)
        try:
            await connection.execute("select 1")
        finally:
            await connection.close()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        return False
    return True
