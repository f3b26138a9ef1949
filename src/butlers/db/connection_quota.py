"""What the butlers of a process have of one server's connections, all together.

A server takes so many connections and refuses the next. Butlers that are busy at once wait here
for each other instead, in the order they came, none with more callers than its own pool holds.
Where all their pools together would be too many, a third of the share may stay open unused.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from butlers.errors import Unavailable


def share_of(takes: int) -> int:
    """Three quarters of what a server takes: other processes come as well."""
    return max(1, takes * 3 // 4)


class ConnectionQuota:
    """So many connections at most, for as many butlers as there are."""

    def __init__(self, most: int, butlers: int = 1) -> None:
        self._most, self._idle_most, self._butlers = most, most // 3, butlers
        self.places = asyncio.Semaphore(most - self._idle_most)
        self.wanted = self.in_use = 0
        self._opened: set[asyncpg.Connection] = set()

    def line(self, pool_min: int, pool_max: int, patience: float) -> "WaitingLine":
        """Where one more butler waits; where all may be too many, it keeps none open by itself."""
        self.wanted += pool_max
        fits = max(self.wanted, self._butlers * pool_max) <= self._most
        return WaitingLine(self, pool_min if fits else 0, pool_max, patience)

    def count(self, connection: asyncpg.Connection) -> None:
        """A connection was opened, and counts until it is closed, by whomever."""
        self._opened.add(connection)

    @property
    def open(self) -> int:
        """How many connections are open."""
        self._opened = {one for one in self._opened if not one.is_closed()}
        return len(self._opened)

    @property
    def is_crowded(self) -> bool:
        """Whether whoever is done should close its connection instead of keeping it."""
        return self.wanted > self._most and self.open - self.in_use > self._idle_most


class WaitingLine:
    """Where the callers of one butler wait for a connection of its pool."""

    def __init__(
        self, share: ConnectionQuota, pool_min: int, pool_max: int, patience: float
    ) -> None:
        self.share, self.pool_min, self._pool_max = share, pool_min, pool_max
        self._own = asyncio.Semaphore(pool_max)
        self._patience = patience

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Within this block the pool is opened; one that cannot be wants nothing."""
        try:
            yield
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """The pool is closed."""
        self.share.wanted -= self._pool_max

    async def acquire(self, pool: asyncpg.Pool) -> PoolConnectionProxy:
        """A connection of the pool; Unavailable when none came free in time."""
        await self._wait()
        try:
            connection = await pool.acquire()
        except BaseException:
            self._let_next()
            raise
        self.share.in_use += 1
        return connection

    async def release(self, pool: asyncpg.Pool, connection: PoolConnectionProxy) -> None:
        """Give a connection back, for whoever is next."""
        self.share.in_use -= 1
        try:
            if self.share.is_crowded:
                await connection.close()
        finally:
            try:
                await pool.release(connection)
            finally:
                self._let_next()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._patience):
                # One's own first: whoever has many callers stands in line with few of them.
                await self._own.acquire()
                try:
                    await self.share.places.acquire()
                except BaseException:
                    self._own.release()
                    raise
        except TimeoutError as error:
            raise Unavailable(
                f"no connection to the database came free within {self._patience:g} seconds; try "
                "again, or raise database.connections"
            ) from error

    def _let_next(self) -> None:
        self.share.places.release()
        self._own.release()
