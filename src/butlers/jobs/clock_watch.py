"""The clock is not believed alone: what cannot be undone waits while it may be wrong.

The latest instant that was believed is on record in the butler's database, with how long the
machine had been up then. A clock more than a day ahead of what can have passed since is doubted,
until it is back, the machine knows it to be set by the network's time, or somebody says that it
is right. A machine that was off cannot say for how long: then only the network's time can.
Where several machines serve a butler each vouches for its own clock: one that was started anew is
compared with the last of all.
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
"""How every doubt begins."""


@dataclass(frozen=True, slots=True)
class Believed:
    """An instant that was believed, and how long the machine had been up then."""

    at: datetime
    boot: str
    seconds: float


def doubt(believed: Believed, now: Believed, *, is_synchronised: bool) -> str | None:
    """Why the clock is not to be believed, or None."""
    same = believed.boot != "" and believed.boot == now.boot
    passed = timedelta(seconds=now.seconds - believed.seconds) if same else timedelta(0)
    ahead = now.at - (believed.at + passed)
    if is_synchronised or ahead <= SLACK:
        return None
    seen = "the machine saw pass" if same else "anything here can vouch for"
    return (
        f"{DOUBTED}{now.at:%Y-%m-%d %H:%M}, {_days(ahead)} more than {seen} since "
        f"{believed.at:%Y-%m-%d %H:%M}: nothing expires or is deleted until it is set right, or "
        "`butlers jobs accept-clock` says that it is right"
    )


def _days(span: timedelta) -> str:
    return f"{span.days:,} day{'' if span.days == 1 else 's'}"


class ClockWatch:
    """Whether one butler's clock is to be believed."""

    def __init__(
        self,
        database: Callable[[], Database],
        clock: Clock = utc_now,
        witness: ClockSources | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._witness = witness or clock_sources_of(clock)

    async def doubt(self) -> str | None:
        """Why the clock is not to be believed, or None; what is believed is put on record."""
        async with self._database().system_transaction() as tx:
            now = self._now()
            reason = await self._reason(tx, now)
            if reason is None:
                await _believe(tx, is_accepted=False, **asdict(now))
                await _believe_boot(tx, is_accepted=False, **asdict(now))
        return reason

    async def look(self) -> str | None:
        """The same, with nothing put on record."""
        async with self._database().system_transaction() as tx:
            return await self._reason(tx, self._now())

    async def accept(self) -> datetime:
        """Somebody says that the clock is right; what it says."""
        async with self._database().system_transaction() as tx:
            now = self._now()
            await _believe(tx, is_accepted=True, **asdict(now))
            await _believe_boot(tx, is_accepted=True, **asdict(now))
        return now.at

    def _now(self) -> Believed:
        return Believed(self._clock(), self._witness.boot(), self._witness.seconds())

    async def _reason(self, tx: Transaction, now: Believed) -> str | None:
        found = await _get(tx, boot=now.boot)
        if found is None:
            return None
        synchronised = self._witness.is_synchronised()
        return doubt(Believed(**found), now, is_synchronised=synchronised)
