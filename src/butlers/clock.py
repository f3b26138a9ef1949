"""Time enters here and nowhere else."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """This instant, aware and in UTC."""
    return datetime.now(UTC)
