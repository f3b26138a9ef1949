"""What tells of time besides the clock, which anybody may set."""

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from butlers.clock import Clock, utc_now

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROCESS = f"process {os.getpid()} of {time.monotonic()}"
_UNSYNCHRONISED = 5


@dataclass(frozen=True, slots=True)
class ClockSources:
    """What tells of time besides the clock that anybody may set."""

    boot: Callable[[], str]
    """A name for the time since the machine was started, or at least this process."""
    seconds: Callable[[], float]
    """Seconds that have passed meanwhile, asleep or not."""
    is_synchronised: Callable[[], bool]
    """Whether the clock is known to be set by the network's time."""


def clock_sources_of(clock: Clock) -> ClockSources:
    """The machine for its own clock; any other clock is its own witness."""
    if clock is utc_now:
        return ClockSources(_boot, _seconds_since_boot, _is_synchronised)
    return ClockSources(lambda: "walked", lambda: clock().timestamp(), lambda: False)


def _boot() -> str:
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return _PROCESS


def _seconds_since_boot() -> float:
    # On Linux the monotonic clock stands still while the machine sleeps; elsewhere it does not.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _is_synchronised() -> bool:
    """What the kernel knows of its clock; setting it by hand makes it forget."""
    system = ctypes.CDLL(None)
    asked = getattr(system, "ntp_adjtime", None) or getattr(system, "adjtimex", None)
    if asked is None:
        return False
    # Room for the kernel's `struct timex`, whose first member, zero, asks without changing.
    state = int(asked(ctypes.create_string_buffer(512)))
    return 0 <= state < _UNSYNCHRONISED
