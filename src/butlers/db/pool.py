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

from butlers.db.connection_quota import ConnectionQuota, PoolShare
from butlers.db.driver_errors import GONE, LEFT, has_left, is_gone, translated_errors
from butlers.db.primary_connector import PrimaryConnector
from butlers.db.tenant_proof import IS_UNBOUND, Keys
from butlers.errors import Away
from butlers.kernel.json_values import shallow_json

# How long to wait for a server that is full or away.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 5.0, 0.05
_DROP_SECONDS = 1.0
_UNCERTAIN = (
    "the database went away during a commit, which may have been done: check whether the change "
    "is there before you repeat it"
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

    def share(self) -> PoolShare:
        """Return the part of the quota that a pool with these limits may use."""
        quota = self.quota or ConnectionQuota(2 * self.pool_max)
        return quota.pool_share(self.pool_min, self.pool_max, self.timeout)


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
        self, pool: asyncpg.Pool, share: PoolShare, begin_with: str, faults: Faults
    ) -> None:
        self.pool = pool
        self._share = share
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
        share = limits.share()
        with share.returned_on_error(), target.faults():
            pool = await asyncpg.create_pool(
                target.dsn,
                min_size=share.pool_min,
                max_size=limits.pool_max,
                command_timeout=limits.timeout,
                connect=PrimaryConnector(target.dsn),
                init=partial(_prepare, share.quota, target.keys),
                reset=_keep,
                **options,
            )
        begin_with = _set_local(settings) if target.pooled else ""
        return cls(pool, share, begin_with, target.faults)

    async def close(self) -> None:
        """Close every connection; busy ones are cut after five seconds."""
        try:
            async with asyncio.timeout(5):
                await self.pool.close()
        except TimeoutError:
            self.pool.terminate()
        self._share.leave()

    @asynccontextmanager
    async def connection(self, *, patient: bool = True) -> AsyncIterator[PoolConnectionProxy]:
        """Take a connection for one statement, which sees no tenant's rows."""
        if self._begin_with:
            async with self.transaction(readonly=False) as connection:
                yield connection
            return
        with self._faults():
            connection = await self._acquired(patient=patient)
            try:
                yield connection
            except BaseException as error:
                if has_left(error):
                    await self._drop_all()
                raise
            finally:
                await self._share.release(self.pool, connection)

    @asynccontextmanager
    async def transaction(
        self, isolation: Isolation = None, *, readonly: bool, first: First | None = None
    ) -> AsyncIterator[PoolConnectionProxy]:
        """Begin a transaction, run `first` in it, and commit at the end of the block.

        Where the connection turns out to be dead by then, another is taken. Away where it is lost
        during the commit, which may have been done.
        """
        with self._faults():
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
                await self._share.release(self.pool, connection)

    async def _begin(
        self, isolation: Isolation, readonly: bool, first: First | None
    ) -> tuple[PoolConnectionProxy, Transaction]:
        """Begin a transaction on a connection that is alive."""
        while True:
            connection = await self._acquired()
            transaction = connection.transaction(isolation=isolation, readonly=readonly)
            try:
                await transaction.start()
                if self._begin_with:
                    await connection.execute(self._begin_with)
                if first is not None:
                    await first(connection)
                return connection, transaction
            except (*LEFT, asyncpg.InternalServerError) as error:
                await self._share.release(self.pool, connection)
                if not has_left(error):
                    raise
                await self._drop_all()
                await self._wait_or_raise(error)
            except BaseException:
                await self._share.release(self.pool, connection)
                raise

    async def _acquired(self, *, patient: bool = True) -> PoolConnectionProxy:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE_SECONDS
        while True:
            try:
                connection = await self._share.acquire(self.pool)
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
