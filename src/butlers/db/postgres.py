"""PostgreSQL for one butler: a pool of connections that act for one tenant at a time.

Statements run as a role that owns nothing, inside a transaction that proves for which
tenant it acts (see `wall.py`); row-level security then hides everybody else's rows. Driver errors
leave this file as errors of ours.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import asyncpg
from asyncpg.pool import PoolConnectionProxy
from pgvector.asyncpg import register_vector

from butlers.db.queries import Query
from butlers.db.share import Line, Share
from butlers.db.wall import ACT, TENANTS, Keys, read_keys
from butlers.errors import Conflict, IntegrityViolation, InvalidInput, Unavailable
from butlers.kernel.json_values import shallow_json

# asyncpg's records are mappings from column to value; nothing else of theirs is used.
Row: TypeAlias = Mapping[str, Any]

# The butler itself: no tenant can have this name.
_SYSTEM = ""
_SESSION = {"jit": "off", "timezone": "UTC"}

# While a server has as many connections as it takes, others may soon let go of theirs.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 5.0, 0.05
_FEW = 200

# What a wrong address, login or database name leads to; trying again would not help.
_CANNOT_USE = (
    asyncpg.ClientConfigurationError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
)

# Somebody else was quicker.
_TAKEN = (
    asyncpg.UniqueViolationError,
    asyncpg.ExclusionViolationError,
    asyncpg.TransactionRollbackError,
)


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one database: as its owner, and as the role that serves requests."""

    owner_dsn: str
    runtime_dsn: str
    runtime_role: str | None = None


class Transaction:
    """Named statements inside one transaction of one tenant, who is the `:tenant_id` of each."""

    def __init__(
        self, connection: PoolConnectionProxy, tenant_id: str, actor: str = "", proof: str = ""
    ) -> None:
        self._connection = connection
        self.tenant_id = tenant_id
        self.actor = actor
        self._known = {"tenant_id": tenant_id, "actor": actor, "proof": proof}

    async def fetch(self, query: Query, /, **values: object) -> list[Row]:
        """Every row of the answer."""
        rows: list[Row] = await self._connection.fetch(*self._bound(query, values))
        return rows

    async def fetch_one(self, query: Query, /, **values: object) -> Row | None:
        """The first row of the answer, or None."""
        return cast(Row | None, await self._connection.fetchrow(*self._bound(query, values)))

    async def fetch_value(self, query: Query, /, **values: object) -> Any:
        """The first column of the first row, or None."""
        return await self._connection.fetchval(*self._bound(query, values))

    async def execute(self, query: Query, /, **values: object) -> int:
        """Run for its effect; how many rows it touched."""
        status = await self._connection.execute(*self._bound(query, values))
        return int(status.rsplit(" ", 1)[-1])

    def _bound(self, query: Query, values: dict[str, Any]) -> tuple[Any, ...]:
        """The statement and its arguments; whose rows it is about is nobody else's to say."""
        if "tenant_id" in values:
            raise TypeError(f"{query.name}: the transaction says which tenant it is for")
        known = {name: self._known[name] for name in query.parameters if name in self._known}
        return query.positional, *query.arguments({**known, **values})

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """What happens inside is undone alone if it raises."""
        async with self._connection.transaction():
            yield

    async def stream(self, query: Query, /, **values: object) -> AsyncIterator[Row]:
        """Every row of the answer, a few at a time, however many there are."""
        async for row in self._connection.cursor(*self._bound(query, values), prefetch=_FEW):
            yield cast(Row, row)


class Database:
    """One butler's database, reached as the role that owns nothing."""

    def __init__(self, pool: asyncpg.Pool, keys: Keys, line: Line) -> None:
        self._pool = pool
        self._keys = keys
        self._line = line

    @classmethod
    async def open(
        cls,
        access: Access,
        *,
        pool_min: int = 1,
        pool_max: int = 10,
        timeout: float = 30.0,
        lock_timeout: float = 5.0,
        share: Share | None = None,
    ) -> "Database":
        """Connect; raises Unavailable when the server does not answer.

        `share`: what all butlers of the process have together of the server's connections.
        """
        line = (share or Share(2 * pool_max)).line(pool_min, pool_max, timeout)
        patience = {"lock_timeout": f"{lock_timeout * 1000:.0f}ms"}
        role = {"role": access.runtime_role} if access.runtime_role else {}
        with line.opening(), translated_errors():
            keys = await _keys(access.owner_dsn)
            pool = await asyncpg.create_pool(
                access.runtime_dsn,
                min_size=line.pool_min,
                max_size=pool_max,
                command_timeout=timeout,
                init=partial(_prepare, line.share),
                reset=_keep,
                server_settings={**_SESSION, **patience, **role, "application_name": "butlers"},
            )
        database = cls(pool, keys, line)
        if line.pool_min < pool_min:
            await database.ping()
        return database

    async def close(self) -> None:
        """Give every connection back; those still busy are cut after a moment."""
        try:
            async with asyncio.timeout(5):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()
        self._line.leave()

    @asynccontextmanager
    async def transaction(
        self, tenant_id: str, actor: str = "", *, at_one_moment: bool = False
    ) -> AsyncIterator[Transaction]:
        """One transaction in which only this tenant's rows exist; events in it are the actor's.

        `at_one_moment`: all that is read is of one moment, whoever writes meanwhile.
        """
        async with self._begun(at_one_moment) as connection:
            tx = self._acting(connection, tenant_id, actor)
            await tx.fetch_value(ACT)
            yield tx

    @asynccontextmanager
    async def system_transaction(self) -> AsyncIterator[Transaction]:
        """One transaction of the butler itself, in which no tenant's rows exist."""
        async with self._begun() as connection:
            yield Transaction(connection, _SYSTEM)

    @asynccontextmanager
    async def _begun(self, at_one_moment: bool = False) -> AsyncIterator[PoolConnectionProxy]:
        """A transaction that names no tenant: to it, no tenant's rows exist."""
        isolation = "repeatable_read" if at_one_moment else None
        async with self._connection() as connection, connection.transaction(isolation=isolation):
            yield connection

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[PoolConnectionProxy]:
        """One of the pool's connections; a server that has none to spare gets a moment."""
        with translated_errors():
            connection = await self._acquired(asyncio.get_running_loop().time() + _PATIENCE_SECONDS)
            try:
                yield connection
            finally:
                await self._line.release(self._pool, connection)

    async def _acquired(self, deadline: float) -> PoolConnectionProxy:
        while True:
            try:
                return await self._line.acquire(self._pool)
            except asyncpg.TooManyConnectionsError:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)

    async def fetch(self, query: Query, /, **values: object) -> list[Row]:
        """One statement of the butler itself, to which no tenant's rows exist."""
        async with self._connection() as connection:
            rows: list[Row] = await connection.fetch(query.positional, *query.arguments(values))
        return rows

    async def fetch_as(self, tenant_id: str, query: Query, /, **values: object) -> list[Row]:
        """One statement for a tenant in one round trip: it begins with `act_for`."""
        async with self._connection() as connection:
            return await self._acting(connection, tenant_id).fetch(query, **values)

    def _acting(
        self, connection: PoolConnectionProxy, tenant_id: str, actor: str = ""
    ) -> Transaction:
        """Statements for a tenant, and the proof that this connection may act for it."""
        proof = self._keys.proof(tenant_id, actor, connection.get_server_pid())
        return Transaction(connection, tenant_id, actor, proof)

    async def tenants(self) -> list[str]:
        """Every tenant that ever stored something here; for workers, never for a caller."""
        async with self.transaction(_SYSTEM) as tx:
            return [row["tenant"] for row in await tx.fetch(TENANTS)]

    async def ping(self) -> None:
        """Raise Unavailable unless the server answers."""
        async with self._connection() as connection:
            await connection.fetchval("select 1")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Driver errors become errors of ours; their text never carries a row's content."""
    try:
        yield
    except asyncpg.LockNotAvailableError as error:
        raise Conflict("somebody else is changing the same just now; try again") from error
    except _TAKEN as error:
        raise Conflict(_clash(error)) from error
    except (
        asyncpg.IntegrityConstraintViolationError,
        asyncpg.InsufficientPrivilegeError,
    ) as error:
        raise IntegrityViolation(_brief(error)) from error
    except asyncpg.DataError as error:
        raise InvalidInput(f"the database cannot hold a value: {_brief(error)}") from error
    except _CANNOT_USE as error:
        raise Unavailable(f"the database cannot be used: {_brief(error)}") from error
    except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError) as error:
        raise Unavailable(f"the database does not answer: {_brief(error)}") from error
    except (asyncpg.OperatorInterventionError, asyncpg.InsufficientResourcesError) as error:
        raise Unavailable(f"the database cannot serve now: {_brief(error)}") from error


def _clash(error: BaseException) -> str:
    """What to do about a clash; the name of a constraint of times says nothing to anybody."""
    if isinstance(error, asyncpg.ExclusionViolationError):
        return "another that holds at the same time was stored just now; try again"
    return _brief(error)


def _brief(error: BaseException) -> str:
    """The first line of a driver's message; its detail line quotes row values and stays out."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


async def _keys(owner_dsn: str) -> Keys:
    with translated_errors():
        owner = await asyncpg.connect(owner_dsn, timeout=10)
        try:
            return await read_keys(owner)
        finally:
            await owner.close()


async def _keep(_: asyncpg.Connection) -> None:
    """Nothing is to be reset, which would take a round trip: what a transaction sets ends with it.

    One left open is rolled back by the pool all the same.
    """


async def _prepare(share: Share, connection: asyncpg.Connection) -> None:
    share.count(connection)
    await register_vector(connection)
    await connection.set_type_codec(
        "jsonb", encoder=json.dumps, decoder=shallow_json, schema="pg_catalog"
    )
