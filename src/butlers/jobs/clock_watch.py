"""Detect a wrong clock, so that nothing expires or is deleted because of it.

The database holds the latest believed instant and how long the machine had been up then. A clock
more than a day ahead of what can have passed since is doubted until it is set back, synchronised
with the network, or accepted by a person. Each machine is compared with its own last instant, and
after a restart, whose length nothing here knows, with the last of all machines.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from butlers.clock import Clock, ClockSources, clock_sources_of, utc_now
from butlers.db.postgres import Database, Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstRow, Touched

_SQL = load(__file__)

_get = FirstRow(_SQL["get"])
_believe = Touched(_SQL["believe"])
_believe_boot = Touched(_SQL["believe_boot"])

SLACK = timedelta(days=1)
DOUBTED = "the clock says "
"""The first words of every doubt."""


@dataclass(frozen=True, slots=True)
class Believed:
    """An instant, and how long the machine had been up then."""

    at: datetime
    boot: str
    seconds: float


def doubt(believed: Believed, now: Believed, *, is_synchronised: bool) -> str | None:
    """Say why the clock is doubted, or None."""
    same = believed.boot != "" and believed.boot == now.boot
    passed = timedelta(seconds=now.seconds - believed.seconds) if same else timedelta(0)
    ahead = now.at - (believed.at + passed)
    if is_synchronised or ahead <= SLACK:
        return None
    seen = "the machine saw pass" if same else "anything here can vouch for"
    days = f"{ahead.days:,} day{'' if ahead.days == 1 else 's'}"
    return (
        f"{DOUBTED}{now.at:%Y-%m-%d %H:%M}, {days} more than {seen} since "
        f"{believed.at:%Y-%m-%d %H:%M}: nothing expires or is deleted until it is set right, or "
        "`butlers jobs accept-clock` says that it is right"
    )


class ClockWatch:
    """Checks the clock of one butler."""

    def __init__(
        self,
        database: Callable[[], Database],
        clock: Clock = utc_now,
        sources: ClockSources | None = None,
    ) -> None:
        self._database, self._clock = database, clock
        self._sources = sources or clock_sources_of(clock)

    async def doubt(self) -> str | None:
        """Say why the clock is doubted, or None; record a believed instant."""
        async with self._database().system_transaction() as tx:
            now = self._now()
            reason = await self._reason(tx, now)
            if reason is None:
                await self._record(tx, now, is_accepted=False)
        return reason

    async def look(self) -> str | None:
        """Say why the clock is doubted, or None; record nothing."""
        async with self._database().system_transaction() as tx:
            return await self._reason(tx, self._now())

    async def accept(self) -> datetime:
        """Record that a person says the clock is right; return its time."""
        async with self._database().system_transaction() as tx:
            now = self._now()
            await self._record(tx, now, is_accepted=True)
        return now.at

    def _now(self) -> Believed:
        return Believed(self._clock(), self._sources.boot(), self._sources.seconds())

    async def _record(self, tx: Transaction, now: Believed, *, is_accepted: bool) -> None:
        await _believe(tx, is_accepted=is_accepted, **asdict(now))
        await _believe_boot(tx, is_accepted=is_accepted, **asdict(now))

    async def _reason(self, tx: Transaction, now: Believed) -> str | None:
        row = await _get(tx, boot=now.boot)
        if row is None:
            return None
        is_synchronised = self._sources.is_synchronised()
        return doubt(Believed(**row), now, is_synchronised=is_synchronised)
