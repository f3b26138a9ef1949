"""Time enters here and nowhere else."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
ClockDoubt = Callable[[], Awaitable[str | None]]
"""Why the clock is not to be believed just now; None while it is."""


def utc_now() -> datetime:
    """This instant, aware and in UTC."""
    return datetime.now(UTC)


async def undoubted() -> str | None:
    """There is nobody to doubt the clock."""
    return None
