"""The current time, which enters the product only here, and the sources that can check it."""

import ctypes
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

Clock = Callable[[], datetime]
ClockDoubt = Callable[[], Awaitable[str | None]]
"""Returns why the clock cannot be trusted now; None while it can."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PROCESS = f"process {os.getpid()} of {time.monotonic()}"
_UNSYNCHRONISED = 5

utc_now: Clock = partial(datetime.now, UTC)
"""Returns the current time in UTC, with its time zone."""


async def undoubted() -> str | None:
    """Trust the clock."""
    return None


@dataclass(frozen=True, slots=True)
class ClockSources:
    """Time sources that cannot be set by hand, used to detect a wrong wall clock."""

    boot: Callable[[], str]
    """Names the current run of the machine, or at least of this process."""
    seconds: Callable[[], float]
    """Returns the seconds since then, also those the machine slept."""
    is_synchronised: Callable[[], bool]
    """Returns whether the clock is synchronised with network time."""


def clock_sources_of(clock: Clock) -> ClockSources:
    """Return the machine's sources for its own clock; a test's clock is its own source."""
    if clock is utc_now:
        return ClockSources(_boot, _seconds_since_boot, _is_synchronised)
    return ClockSources(lambda: "test clock", lambda: clock().timestamp(), lambda: False)


def _boot() -> str:
    # Not by pathlib: the hook program loads this file and must start at once.
    with suppress(OSError), open(_BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
    return _PROCESS


def _seconds_since_boot() -> float:
    # On Linux the monotonic clock stands still while the machine sleeps; elsewhere it does not.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _is_synchronised() -> bool:
    """Ask the kernel whether NTP sets its clock; setting it by hand ends that."""
    system = ctypes.CDLL(None)
    adjtime = getattr(system, "ntp_adjtime", None) or getattr(system, "adjtimex", None)
    if adjtime is None:
        return False
    # Room for the kernel's `struct timex`; its first member, zero, means: change nothing.
    state = int(adjtime(ctypes.create_string_buffer(512)))
    return 0 <= state < _UNSYNCHRONISED
