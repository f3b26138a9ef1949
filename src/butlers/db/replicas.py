"""Replicas of a database to read from, and which of them are close enough to the primary.

While there are reads, the primary is asked periodically for the end of its log (LSN), and each
replica for the position it has replayed. A replica past an LSN has all that was written before the
primary was asked for it: `as_of` is that instant, by the clock of this process alone.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import structlog

from butlers.db.queries import NamedQuery, load
from butlers.errors import ButlersError, Unavailable

log = structlog.get_logger(__name__)
_SQL = load(__file__)
_NEVER = float("-inf")
# How many checks fit into the allowed lag, and how long to wait before a failed one is repeated.
_CHECKS_PER_LAG, _LONGEST_PAUSE_SECONDS, _RETRY_SECONDS = 4, 1.0, 5.0
_CHECK_SECONDS = 5.0
_KEPT_POSITIONS = 64


class QueryableServer(Protocol):
    """A server that can be asked for its position in the log."""

    async def fetch(self, query: NamedQuery, /, **values: object) -> list[Mapping[str, Any]]:
        """Return the rows of one statement."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


S = TypeVar("S", bound=QueryableServer)


@dataclass(slots=True)
class Replica(Generic[S]):
    """One replica: opened when it can be, and read from while it is close enough."""

    address: str
    """Where it is, without the login."""
    open: Callable[["Replica[S]"], Awaitable[S]]
    database: S | None = None
    as_of: float = _NEVER
    """It has all that was written before this instant."""
    problem: str = ""
    """Why it is not read from."""
    asked_at: float = _NEVER

    def mark_lost(self, reason: str) -> None:
        """Do not read from it until a check succeeds."""
        self.as_of = _NEVER
        if reason != self.problem:
            log.warning("a replica is not read from", replica=self.address, reason=reason)
        self.problem = reason

    def mark_ready(self, as_of: float) -> None:
        """Note that it works and has all that was written before an instant."""
        if self.problem:
            log.info("a replica can be read from again", replica=self.address)
        self.problem, self.as_of = "", as_of

    async def read_position(self) -> Mapping[str, Any]:
        """Ask how far it has replayed the log; connect first if need be."""
        self.asked_at = time.monotonic()
        if self.database is None:
            self.database = await self.open(self)
        [row] = await self.database.fetch(_SQL["replica"])
        return row


class Replicas(Generic[S]):
    """The replicas of one database, checked as often as reads need it."""

    def __init__(self, primary: S, replicas: Sequence[Replica[S]], max_lag_seconds: float) -> None:
        self._primary = primary
        self._replicas = replicas
        self._max_lag = max_lag_seconds
        self._pause = min(max_lag_seconds / _CHECKS_PER_LAG, _LONGEST_PAUSE_SECONDS)
        self._positions: deque[tuple[float, int]] = deque(maxlen=_KEPT_POSITIONS)
        self._written: dict[str, float] = {}
        self._checked_at = _NEVER
        self._checking: asyncio.Task[None] | None = None
        self._turn = 0

    def note_write(self, tenant_id: str) -> None:
        """Do not read the tenant from a replica until that has come this far."""
        self._written[tenant_id] = time.monotonic()

    def choose(self, tenant_id: str) -> S | None:
        """Return a replica within the allowed lag that has what this process wrote, or None."""
        self._check_soon()
        least = max(time.monotonic() - self._max_lag, self._written.get(tenant_id, _NEVER))
        ready = [r.database for r in self._replicas if r.database and r.as_of >= least]
        self._turn += 1
        return ready[self._turn % len(ready)] if ready else None

    def problems(self) -> dict[str, str]:
        """Return why replicas are not read from, by address, as of the last check."""
        self._check_soon()
        return {replica.address: replica.problem for replica in self._replicas if replica.problem}

    async def close(self) -> None:
        """Close every connection."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)
        for database in [self._primary, *(replica.database for replica in self._replicas)]:
            if database is not None:
                await database.close()

    def _check_soon(self) -> None:
        """Start a check in the background; the present read does not wait for it."""
        now = time.monotonic()
        if self._checking is None and now - self._checked_at >= self._pause:
            self._checked_at = now
            self._checking = asyncio.create_task(self.check())
            self._checking.add_done_callback(self._check_ended)

    def _check_ended(self, _: asyncio.Task[None]) -> None:
        self._checking = None

    async def check(self) -> None:
        """Ask the primary and each replica for their position in the log."""
        asked_at = time.monotonic()
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                [primary] = await self._primary.fetch(_SQL["primary"])
        except (ButlersError, TimeoutError):
            return  # how far replicas are behind is unknown, and soon they are too far
        self._positions.append((asked_at, primary["position"]))
        retry_before = asked_at - _RETRY_SECONDS
        due = [r for r in self._replicas if r.database or r.asked_at < retry_before]
        await asyncio.gather(*(self._check_one(replica, primary) for replica in due))
        oldest = min((replica.as_of for replica in self._replicas), default=_NEVER)
        self._written = {tenant: at for tenant, at in self._written.items() if at > oldest}

    async def _check_one(self, replica: Replica[S], primary: Mapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                state = await replica.read_position()
            is_primary = _is_primary(state, primary)
        except (ButlersError, TimeoutError) as error:
            replica.mark_lost(str(error) or f"no answer in {_CHECK_SECONDS:g} seconds")
            return
        if is_primary:
            replica.mark_ready(_NEVER)
            return
        replayed = state["position"]
        passed = [at for at, position in self._positions if position <= replayed]
        missed = [at for at, position in self._positions if position > replayed]
        if missed and missed[0] < time.monotonic() - self._max_lag:
            replica.mark_lost(f"it is more than {self._max_lag:g} seconds behind")
        else:
            replica.mark_ready(passed[-1] if passed else _NEVER)


def _is_primary(state: Mapping[str, Any], primary: Mapping[str, Any]) -> bool:
    """Return whether it is the primary itself; Unavailable where it is no replica of that."""
    if state["server"] != primary["server"]:
        raise Unavailable("it is not a replica of the server in database.url")
    if not state["follows"]:
        if state["started_at"] == primary["started_at"]:
            return True
        raise Unavailable("it was promoted to primary, but database.url names another primary")
    if state["timeline"] != primary["timeline"]:
        raise Unavailable("it replicates from a former primary, or did so until recently")
    return False
