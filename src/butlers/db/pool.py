"""A connection pool that survives an outage of the server and works behind a pooler.

When the server is away, requests wait some seconds, since another server may be about to take over;
after that they fail at once until one gets through. Behind a pooler in transaction mode nothing is
kept on a connection: no prepared statements, and each transaction sets its session settings.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import asyncpg
from asyncpg.pool import PoolConnectionProxy
from asyncpg.transaction import Transaction
from pgvector.asyncpg import register_vector

from butlers.db.connection_quota import ConnectionQuota
from butlers.db.driver_errors import DRIVER, GONE, LEFT, has_left, is_gone, translated_errors
from butlers.db.primary_connector import PrimaryConnector
from butlers.db.tenant_proof import IS_UNBOUND, Keys
from butlers.errors import Away, Unavailable
from butlers.kernel.json_values import shallow_json

# How long to wait for a server that is full or away.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 5.0, 0.05
_DROP_SECONDS = 1.0
_UNCERTAIN = (
    "the database went away during a commit, which may have been done: check whether the change "
    "is there before you repeat it"
)
_NONE_FREE = (
    "no connection to the database was free within {:g} seconds; try again, or raise "
    "database.connections"
)
_STARTUP_SETTINGS = {"timezone": "UTC", "application_name": "butlers"}

Isolation = Literal["repeatable_read"] | None
Faults = Callable[[], AbstractContextManager[None]]
First = Callable[[PoolConnectionProxy], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How many connections a pool has, and how long statements and locks may take."""

    pool_min: int = 1
    pool_max: int = 10
    timeout: float = 30.0
    lock_timeout: float = 5.0
    quota: ConnectionQuota | None = None
    """What all butlers of the process may open together."""


@dataclass(frozen=True, slots=True)
class PoolTarget:
    """The server to connect to: address, role, keys of tenant proofs, whether behind a pooler."""

    dsn: str
    role: str | None
    keys: Keys
    pooled: bool
    faults: Faults = translated_errors


class ConnectionPool:
    """A pool of connections to one server, or to whichever of several is the primary."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        quota: ConnectionQuota,
        timeout: float,
        begin_with: str,
        faults: Faults,
    ) -> None:
        self.pool = pool
        self.quota = quota
        self._timeout = timeout
        self._own_slots = asyncio.Semaphore(pool.get_max_size())
        self._begin_with = begin_with
        self._faults = faults
        self._is_patient = faults is translated_errors
        self._gone_at: float | None = None
        self._dropped_at = float("-inf")

    @classmethod
    async def open(cls, target: PoolTarget, limits: PoolLimits) -> "ConnectionPool":
        """Connect; raises Unavailable when the server does not answer."""
        settings = {"jit": "off", "lock_timeout": f"{limits.lock_timeout * 1000:.0f}ms"}
        settings |= {"role": target.role} if target.role else {}
        options: dict[str, Any] = {"server_settings": _STARTUP_SETTINGS | settings}
        if target.pooled:
            options = {"server_settings": _STARTUP_SETTINGS, "statement_cache_size": 0}
        quota = limits.quota or ConnectionQuota(2 * limits.pool_max)
        options |= {"min_size": quota.join(limits.pool_min, limits.pool_max)}
        try:
            with target.faults():
                pool = await asyncpg.create_pool(
                    target.dsn,
                    max_size=limits.pool_max,
                    command_timeout=limits.timeout,
                    connect=PrimaryConnector(target.dsn),
                    init=partial(_prepare, quota, target.keys),
                    reset=_keep,
                    **options,
                )
        except BaseException:
            quota.leave(limits.pool_max)
            raise
        begin_with = _set_local(settings) if target.pooled else ""
        return cls(pool, quota, limits.timeout, begin_with, target.faults)

    async def close(self) -> None:
        """Close every connection; busy ones are cut after five seconds."""
        try:
            async with asyncio.timeout(5):
                await self.pool.close()
        except TimeoutError:
            self.pool.terminate()
        self.quota.leave(self.pool.get_max_size())

    @asynccontextmanager
    async def connection(self, *, patient: bool = True) -> AsyncIterator[PoolConnectionProxy]:
        """Take a connection for one statement, which sees no tenant's rows."""
        if self._begin_with:
            async with self.transaction(readonly=False) as connection:
                yield connection
            return
        try:
            connection = await self._acquire(patient=patient)
            try:
                yield connection
            except BaseException as error:
                if has_left(error):
                    await self._drop_all()
                raise
            finally:
                await self._release(connection)
        except DRIVER:
            with self._faults():
                raise

    @asynccontextmanager
    async def transaction(
        self, isolation: Isolation = None, *, readonly: bool, first: First | None = None
    ) -> AsyncIterator[PoolConnectionProxy]:
        """Begin a transaction, run `first` in it, and commit at the end of the block.

        Where the connection turns out to be dead by then, another is taken. Away where it is lost
        during the commit, which may have been done.
        """
        try:
            connection, transaction = await self._begin(isolation, readonly, first)
            try:
                yield connection
            except BaseException as error:
                with suppress(*GONE):
                    await transaction.rollback()
                if has_left(error):
                    await self._drop_all()
                raise
            else:
                try:
                    await transaction.commit()
                except Exception as error:
                    if is_gone(error):
                        raise Away(_UNCERTAIN) from error
                    raise
            finally:
                await self._release(connection)
        except DRIVER:
            with self._faults():
                raise

    async def _begin(
        self, isolation: Isolation, readonly: bool, first: First | None
    ) -> tuple[PoolConnectionProxy, Transaction]:
        """Begin a transaction on a connection that is alive."""
        while True:
            connection = await self._acquire()
            transaction = connection.transaction(isolation=isolation, readonly=readonly)
            try:
                await transaction.start()
                if self._begin_with:
                    await connection.execute(self._begin_with)
                if first is not None:
                    await first(connection)
                return connection, transaction
            except (*LEFT, asyncpg.InternalServerError) as error:
                await self._release(connection)
                if not has_left(error):
                    raise
                await self._drop_all()
                await self._wait_or_raise(error)
            except BaseException:
                await self._release(connection)
                raise

    async def _acquire(self, *, patient: bool = True) -> PoolConnectionProxy:
        """Take a connection; wait for a server that is full or away."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE_SECONDS
        while True:
            try:
                connection = await self._acquire_once()
            except asyncpg.TooManyConnectionsError:
                if loop.time() >= deadline or not self._is_patient:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            except LEFT as error:
                if not patient:
                    raise
                await self._wait_or_raise(error)
            else:
                self._gone_at = None
                return connection

    async def _acquire_once(self) -> PoolConnectionProxy:
        """Take a connection within the quota; Unavailable when none is free in time."""
        try:
            async with asyncio.timeout(self._timeout):
                # Own slots first, so that a pool with many callers queues only a few of them.
                await self._own_slots.acquire()
                try:
                    await self.quota.slots.acquire()
                except BaseException:
                    self._own_slots.release()
                    raise
        except TimeoutError as error:
            raise Unavailable(_NONE_FREE.format(self._timeout)) from error
        try:
            connection = await self.pool.acquire()
        except BaseException:
            self.quota.slots.release()
            self._own_slots.release()
            raise
        self.quota.in_use += 1
        return connection

    async def _release(self, connection: PoolConnectionProxy) -> None:
        """Give a connection back; close it where too many would stay open unused."""
        quota = self.quota
        quota.in_use -= 1
        try:
            if quota.wanted > quota.limit and quota.open - quota.in_use > quota.idle_limit:
                await connection.close()
        finally:
            try:
                await self.pool.release(connection)
            finally:
                quota.slots.release()
                self._own_slots.release()

    async def _drop_all(self) -> None:
        """Let the next callers connect anew, at most once a second: the server may be lost."""
        now = asyncio.get_running_loop().time()
        if now - self._dropped_at >= _DROP_SECONDS:
            self._dropped_at = now
            await self.pool.expire_connections()

    async def _wait_or_raise(self, error: BaseException) -> None:
        """Pause, or raise if the server has been away for too long."""
        now = asyncio.get_running_loop().time()
        if self._gone_at is None:
            self._gone_at = now
        if not self._is_patient or now - self._gone_at >= _PATIENCE_SECONDS:
            raise error
        await asyncio.sleep(_PAUSE_SECONDS)


def _set_local(settings: dict[str, str]) -> str:
    """Return statements that begin a transaction behind a pooler, and reset others' settings."""
    quoted = {name: f"'{value}'" for name, value in settings.items()}
    quoted |= {"search_path": '"$user", public', "row_security": "'on'"}
    return "; ".join(f"set local {name} = {value}" for name, value in quoted.items())


async def _keep(_: asyncpg.Connection) -> None:
    """Save the round trip of a reset: settings end with their transaction."""


async def _prepare(quota: ConnectionQuota, keys: Keys, connection: asyncpg.Connection) -> None:
    """Prepare a new connection; its database may have changed to unbound proofs meanwhile."""
    quota.count(connection)
    keys.unbound = keys.unbound or await connection.fetchval(IS_UNBOUND)
    await register_vector(connection)
    await connection.set_type_codec(
        "jsonb", encoder=json.dumps, decoder=shallow_json, schema="pg_catalog"
    )
