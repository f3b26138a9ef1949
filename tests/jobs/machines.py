"""A machine with a clock that somebody may set, and a sense of time of its own."""

from dataclasses import dataclass
from datetime import timedelta

from butlers.clock import ClockSources
from butlers.db.postgres import Database
from butlers.jobs.clock_watch import ClockWatch
from conftest import WalkingClock


@dataclass
class Machine:
    """A machine whose clock somebody may set while time goes on."""

    clock: WalkingClock
    boot: str = "first"
    seconds: float = 1_000.0
    is_synchronised: bool = False

    @property
    def clock_sources(self) -> ClockSources:
        return ClockSources(lambda: self.boot, lambda: self.seconds, lambda: self.is_synchronised)

    def watch(self, database: Database) -> ClockWatch:
        """As a process that starts now would have it."""
        return ClockWatch(lambda: database, self.clock, self.clock_sources)

    def passes(self, **span: float) -> None:
        """Time goes on while the machine runs."""
        self.clock.advance(**span)
        self.seconds += timedelta(**span).total_seconds()

    def is_off(self, **span: float) -> None:
        """Its clock goes on, but nobody can vouch for how much."""
        self.clock.advance(**span)
        self.boot, self.seconds = f"after {self.boot}", 5.0
