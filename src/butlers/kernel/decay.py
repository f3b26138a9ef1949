"""How much is left of something after a span of time."""

import math
from datetime import datetime, timedelta

from butlers.errors import InvalidInput


def days_between(earlier: datetime, later: datetime) -> float:
    """The days from one instant to another; an instant still to come is no days ago."""
    return max(0.0, (later - earlier) / timedelta(days=1))


def exponential(rate: float, days: float) -> float:
    """The part left, from 1 down to 0, when `rate` of it goes each day."""
    return math.exp(-rate * max(0.0, days))


def half_life(days: float, half_life_days: float) -> float:
    """The part left, from 1 down to 0, when half of it goes every `half_life_days`."""
    if half_life_days <= 0:
        raise InvalidInput(f"half_life_days must be more than 0, not {half_life_days}.")
    return exponential(math.log(2) / half_life_days, days)
