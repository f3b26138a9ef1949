"""Copies of a database to read from, and which of them is near enough to the original.

While somebody reads, the primary is asked now and then where its log ends, and each replica how far
it has come. A replica that is past a place of the log has all that was written before the primary
was asked for that place: `as_of` is that instant, by this process's own clock and no other.
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
# How many looks fit into the lag that is allowed, and how long what failed is left alone.
_LOOKS, _LONGEST_PAUSE_SECONDS, _AGAIN_SECONDS = 4, 1.0, 5.0
_LOOK_SECONDS = 5.0
_PLACES = 64


class QueryableServer(Protocol):
    """What can be asked where it stands."""

    async def fetch(self, query: NamedQuery, /, **values: object) -> list[Mapping[str, Any]]:
        """The rows of one statement that is about nobody."""
        ...

    async def close(self) -> None:
        """Let go of every connection."""
        ...


S = TypeVar("S", bound=QueryableServer)


@dataclass(slots=True)
class Replica(Generic[S]):
    """One copy: opened once it can be, and read from while it is near."""

    place: str
    """Where it is, as people may be told."""
    open: Callable[["Replica[S]"], Awaitable[S]]
    database: S | None = None
    as_of: float = _NEVER
    """All that was written before this instant is there."""
    trouble: str = ""
    """Why it is not read from, which somebody should look at."""
    asked_at: float = _NEVER

    def lost(self, why: str) -> None:
        """It is not read from until it was asked again."""
        self.as_of = _NEVER
        if why != self.trouble:
            log.warning("a replica is not read from", replica=self.place, reason=why)
        self.trouble = why

    def follows(self, as_of: float) -> None:
        """It has all that was written before an instant, and nothing is wrong with it."""
        if self.trouble:
            log.info("a replica can be read from again", replica=self.place)
        self.trouble, self.as_of = "", as_of

    async def ask(self) -> Mapping[str, Any]:
        """How far it has come."""
        self.asked_at = time.monotonic()
        if self.database is None:
            self.database = await self.open(self)
        [row] = await self.database.fetch(_SQL["replica"])
        return row


class Replicas(Generic[S]):
    """The replicas of one database, each asked as often as readers need to know."""

    def __init__(self, primary: S, replicas: Sequence[Replica[S]], max_lag_seconds: float) -> None:
        self._primary = primary
        self._replicas = replicas
        self._max_lag = max_lag_seconds
        self._pause = min(max_lag_seconds / _LOOKS, _LONGEST_PAUSE_SECONDS)
        self._places: deque[tuple[float, int]] = deque(maxlen=_PLACES)
        self._written: dict[str, float] = {}
        self._looked_at = _NEVER
        self._looking: asyncio.Task[None] | None = None
        self._turn = 0

    def wrote(self, tenant_id: str) -> None:
        """Until a replica has come this far, the tenant is not read from it."""
        self._written[tenant_id] = time.monotonic()

    def near(self, tenant_id: str) -> S | None:
        """A replica not too far behind that has whatever this process wrote for the tenant."""
        self._look_soon()
        least = max(time.monotonic() - self._max_lag, self._written.get(tenant_id, _NEVER))
        fit = [one.database for one in self._replicas if one.database and one.as_of >= least]
        self._turn += 1
        return fit[self._turn % len(fit)] if fit else None

    def troubles(self) -> dict[str, str]:
        """Why replicas are not read from, by their places; nobody waits until that is looked at."""
        self._look_soon()
        return {one.place: one.trouble for one in self._replicas if one.trouble}

    async def close(self) -> None:
        """Let go of every connection."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for one in [self._primary, *(replica.database for replica in self._replicas)]:
            if one is not None:
                await one.close()

    def _look_soon(self) -> None:
        """Nobody who reads waits for the look: it is for the next."""
        now = time.monotonic()
        if self._looking is None and now - self._looked_at >= self._pause:
            self._looked_at = now
            self._looking = asyncio.create_task(self.look())
            self._looking.add_done_callback(self._looked)

    def _looked(self, _: asyncio.Task[None]) -> None:
        self._looking = None

    async def look(self) -> None:
        """Ask each where it stands."""
        asked_at = time.monotonic()
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                [end] = await self._primary.fetch(_SQL["primary"])
        except (ButlersError, TimeoutError):
            return  # how far the replicas are behind is not known, and soon they are too far
        self._places.append((asked_at, end["place"]))
        left_alone = asked_at - _AGAIN_SECONDS
        asked = [one for one in self._replicas if one.database or one.asked_at < left_alone]
        await asyncio.gather(*(self._ask(one, end) for one in asked))
        oldest = min((one.as_of for one in self._replicas), default=_NEVER)
        self._written = {who: at for who, at in self._written.items() if at > oldest}

    async def _ask(self, replica: Replica[S], end: Mapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                found = await replica.ask()
            is_primary = _checked(found, end)
        except (ButlersError, TimeoutError) as error:
            replica.lost(str(error) or f"no answer in {_LOOK_SECONDS:g} seconds")
            return
        if is_primary:
            replica.follows(_NEVER)
            return
        passed = [at for at, place in self._places if place <= found["place"]]
        missed = [at for at, place in self._places if place > found["place"]]
        if missed and missed[0] < time.monotonic() - self._max_lag:
            replica.lost(f"it is more than {self._max_lag:g} seconds behind")
        else:
            replica.follows(passed[-1] if passed else _NEVER)


def _checked(found: Mapping[str, Any], end: Mapping[str, Any]) -> bool:
    """Whether it is the primary itself; Unavailable where it is no copy that follows that."""
    if found["server"] != end["server"]:
        raise Unavailable("it is no copy of the server of database.url")
    if not found["follows"]:
        if found["started_at"] == end["started_at"]:
            return True
        raise Unavailable("it follows nobody: it was made a primary, and database.url has another")
    if found["timeline"] != end["timeline"]:
        raise Unavailable("it follows a server that is the primary no more, or did so lately")
    return False
