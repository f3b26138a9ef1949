"""Connections to the server that has a database: kept through an outage, careful with a pooler.

A server that is away is waited for a moment, since another may be about to take its place; when
that moment is over, requests fail at once until one of them gets through. Behind a pooler that
hands out connections for a transaction each, nothing is left on one: no named statements, and what
a session would be told at its start is told to each transaction.
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

from butlers.db.connection_quota import ConnectionQuota, WaitingLine
from butlers.db.faults import GONE, LEFT, has_left, is_gone, translated_errors
from butlers.db.primary_connector import PrimaryConnector
from butlers.db.tenant_proof import IS_UNBOUND, Keys
from butlers.errors import Away
from butlers.kernel.json_values import shallow_json

# While a server has as many connections as it takes, others may soon let go of theirs; and while
# one is away, another may soon be there.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 5.0, 0.05
_DROP_SECONDS = 1.0
_UNCERTAIN = (
    "the database went away while a change was being made final, which may have been done: look "
    "whether it is there before you ask for it again"
)
_NAMED = {"timezone": "UTC", "application_name": "butlers"}
_SESSION = {"jit": "off"}

Isolation = Literal["repeatable_read"] | None
Faults = Callable[[], AbstractContextManager[None]]
First = Callable[[PoolConnectionProxy], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections there are, and how long what is done on them may take."""

    pool_min: int = 1
    pool_max: int = 10
    timeout: float = 30.0
    lock_timeout: float = 5.0
    share: ConnectionQuota | None = None
    """What all butlers of the process have together of the server's connections."""

    def line(self) -> WaitingLine:
        """Where callers wait for a connection."""
        share = self.share or ConnectionQuota(2 * self.pool_max)
        return share.line(self.pool_min, self.pool_max, self.timeout)


class ConnectionPool:
    """A pool of connections to one server, or to whichever of several is the primary."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        line: WaitingLine,
        begin_with: str,
        faults: Faults = translated_errors,
    ) -> None:
        self.pool = pool
        self._line = line
        self._begin_with = begin_with
        self._faults = faults
        self._is_patient = faults is translated_errors
        self._gone_at: float | None = None
        self._dropped_at = float("-inf")

    @classmethod
    async def open(
        cls,
        dsn: str,
        role: str | None,
        bounds: Bounds,
        keys: Keys,
        *,
        pooled: bool,
        faults: Faults = translated_errors,
    ) -> "ConnectionPool":
        """Connect; raises Unavailable when the server does not answer."""
        settings = {**_SESSION, "lock_timeout": f"{bounds.lock_timeout * 1000:.0f}ms"}
        settings |= {"role": role} if role else {}
        of_a_pooler: dict[str, Any] = {"statement_cache_size": 0} if pooled else {}
        line = bounds.line()
        with line.opening(), faults():
            pool = await asyncpg.create_pool(
                dsn,
                min_size=line.pool_min,
                max_size=bounds.pool_max,
                command_timeout=bounds.timeout,
                connect=PrimaryConnector(dsn),
                init=partial(_prepare, line.share, keys),
                reset=_keep,
                server_settings=_NAMED if pooled else {**_NAMED, **settings},
                **of_a_pooler,
            )
        return cls(pool, line, _told_each(settings) if pooled else "", faults)

    async def close(self) -> None:
        """Give every connection back; those still busy are cut after a moment."""
        try:
            async with asyncio.timeout(5):
                await self.pool.close()
        except TimeoutError:
            self.pool.terminate()
        self._line.leave()

    @asynccontextmanager
    async def one(self, *, patient: bool = True) -> AsyncIterator[PoolConnectionProxy]:
        """A connection for one statement, to which no tenant's rows exist."""
        if self._begin_with:
            async with self.begun(readonly=False) as connection:
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
                await self._line.release(self.pool, connection)

    @asynccontextmanager
    async def begun(
        self, isolation: Isolation = None, *, readonly: bool, first: First | None = None
    ) -> AsyncIterator[PoolConnectionProxy]:
        """A transaction that names no tenant, unless that is the `first` that is done in it."""
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
                await _commit(transaction)
            finally:
                await self._line.release(self.pool, connection)

    async def _begin(
        self, isolation: Isolation, readonly: bool, first: First | None
    ) -> tuple[PoolConnectionProxy, Transaction]:
        """A transaction in which nothing was done, on a connection that is alive."""
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
                await self._line.release(self.pool, connection)
                if not has_left(error):
                    raise
                await self._drop_all()
                await self._wait_or_raise(error)
            except BaseException:
                await self._line.release(self.pool, connection)
                raise

    async def _acquired(self, *, patient: bool = True) -> PoolConnectionProxy:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE_SECONDS
        while True:
            try:
                connection = await self._line.acquire(self.pool)
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
        """What is connected now may be so to a server that went: whoever is next connects anew.

        Not over and over, where the only server there is takes no writes but can be read.
        """
        now = asyncio.get_running_loop().time()
        if now - self._dropped_at >= _DROP_SECONDS:
            self._dropped_at = now
            await self.pool.expire_connections()

    async def _wait_or_raise(self, error: BaseException) -> None:
        """A moment passes, unless as much as may be waited has passed since the server went."""
        now = asyncio.get_running_loop().time()
        if self._gone_at is None:
            self._gone_at = now
        if not self._is_patient or now - self._gone_at >= _PATIENCE_SECONDS:
            raise error
        await asyncio.sleep(_PAUSE_SECONDS)


async def _commit(transaction: Transaction) -> None:
    try:
        await transaction.commit()
    except Exception as error:
        if is_gone(error):
            raise Away(_UNCERTAIN) from error
        raise


def _told_each(settings: dict[str, str]) -> str:
    """What each transaction is told, also against what other clients left on a connection."""
    told = {**settings, "search_path": '"$user", public', "row_security": "on"}
    quoted = (f"set local {name} = {_literal(name, value)}" for name, value in told.items())
    return "; ".join(quoted)


def _literal(name: str, value: str) -> str:
    return value if name == "search_path" else f"'{value}'"


async def _keep(_: asyncpg.Connection) -> None:
    """Nothing is to be reset, which would take a round trip: what a transaction sets ends with it.

    One left open is rolled back by the pool all the same.
    """


async def _prepare(share: ConnectionQuota, keys: Keys, connection: asyncpg.Connection) -> None:
    """What a connection needs; the database may be another than before, that is spread."""
    share.count(connection)
    keys.unbound = keys.unbound or await connection.fetchval(IS_UNBOUND)
    await register_vector(connection)
    await connection.set_type_codec(
        "jsonb", encoder=json.dumps, decoder=shallow_json, schema="pg_catalog"
    )
