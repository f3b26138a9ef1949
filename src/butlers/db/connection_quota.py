"""Limit the connections that all butlers of a process open to one server.

A server accepts a limited number of connections and refuses the next. Busy butlers queue here
instead, first come first served; none queues more callers than its own pool holds. Where all pools
together would exceed the limit, at most a third of it stays open unused.
"""

import asyncio

import asyncpg


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

    def join(self, pool_min: int, pool_max: int) -> int:
        """Add a pool; return its idle connections: 0 if all pools together may exceed the limit."""
        self.wanted += pool_max
        return pool_min if max(self.wanted, self._butlers * pool_max) <= self.limit else 0

    def leave(self, pool_max: int) -> None:
        """Take out a pool that is closed, or could not be opened."""
        self.wanted -= pool_max

    def count(self, connection: asyncpg.Connection) -> None:
        """Count a new connection until it is closed, by either side."""
        self._opened.add(connection)

    @property
    def open(self) -> int:
        """Return how many connections are open."""
        self._opened = {connection for connection in self._opened if not connection.is_closed()}
        return len(self._opened)
