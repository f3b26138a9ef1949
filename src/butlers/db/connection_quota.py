"""Limit the connections that all butlers of a process open to one server.

A server accepts a limited number of connections and refuses the next. Busy butlers queue here
instead, first come first served; none queues more callers than its own pool holds. Where all pools
together would exceed the limit, at most a third of it stays open unused.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from butlers.errors import Unavailable


def quota_of(max_connections: int) -> int:
    """Return three quarters of what a server accepts: other processes connect as well."""
    return max(1, max_connections * 3 // 4)


class ConnectionQuota:
    """At most so many connections for all butlers of a process."""

    def __init__(self, limit: int, butlers: int = 1) -> None:
        self.limit, self.idle_limit, self._butlers = limit, limit // 3, butlers
        self.slots = asyncio.Semaphore(limit - self.idle_limit)
        self.wanted = self.in_use = 0
        self._opened: set[asyncpg.Connection] = set()

    def pool_share(self, pool_min: int, pool_max: int, timeout: float) -> "PoolShare":
        """Add a pool. It keeps no idle connections where all pools may exceed the limit."""
        self.wanted += pool_max
        fits = max(self.wanted, self._butlers * pool_max) <= self.limit
        return PoolShare(self, pool_min if fits else 0, pool_max, timeout)

    def count(self, connection: asyncpg.Connection) -> None:
        """Count a new connection until it is closed, by either side."""
        self._opened.add(connection)

    @property
    def open(self) -> int:
        """Return how many connections are open."""
        self._opened = {connection for connection in self._opened if not connection.is_closed()}
        return len(self._opened)


class PoolShare:
    """The part of a quota that one pool may use."""

    def __init__(
        self, quota: ConnectionQuota, pool_min: int, pool_max: int, timeout: float
    ) -> None:
        self.quota, self.pool_min, self._pool_max = quota, pool_min, pool_max
        self._own_slots = asyncio.Semaphore(pool_max)
        self._timeout = timeout

    @contextmanager
    def returned_on_error(self) -> Iterator[None]:
        """Open the pool within this block; if that fails, its part is free again."""
        try:
            yield
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Give the part back: the pool is closed."""
        self.quota.wanted -= self._pool_max

    async def acquire(self, pool: asyncpg.Pool) -> PoolConnectionProxy:
        """Take a connection of the pool; Unavailable when none is free in time."""
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
            raise Unavailable(
                f"no connection to the database was free within {self._timeout:g} seconds; try "
                "again, or raise database.connections"
            ) from error
        try:
            connection = await pool.acquire()
        except BaseException:
            self._free_slots()
            raise
        self.quota.in_use += 1
        return connection

    async def release(self, pool: asyncpg.Pool, connection: PoolConnectionProxy) -> None:
        """Give a connection back; close it where too many would stay open unused."""
        quota = self.quota
        quota.in_use -= 1
        try:
            if quota.wanted > quota.limit and quota.open - quota.in_use > quota.idle_limit:
                await connection.close()
        finally:
            try:
                await pool.release(connection)
            finally:
                self._free_slots()

    def _free_slots(self) -> None:
        self.quota.slots.release()
        self._own_slots.release()
