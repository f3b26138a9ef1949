"""When a memory will have lost too much of its confidence."""

import math
from datetime import datetime, timedelta

from butlers.memory.policy.confidence import effective_confidence


def falls_below_at(
    confidence: float, decay_rate: float, confirmed_at: datetime | None, threshold: float
) -> datetime | None:
    """The instant from which effective confidence is below a threshold, unless confirmed again.

    None for what never gets there, and for what counts for nothing already.
    """
    if decay_rate == 0 or threshold <= 0 or confidence <= 0 or confirmed_at is None:
        return None
    days = max(0.0, math.log(confidence / threshold) / decay_rate)
    try:
        return confirmed_at + timedelta(days=days)
    except OverflowError:  # later than any calendar goes
        return None


def decay_curve(
    confidence: float,
    decay_rate: float,
    confirmed_at: datetime | None,
    start: datetime,
    end: datetime,
    points: int = 25,
) -> list[tuple[datetime, float]]:
    """Effective confidence at evenly spaced instants from start to end, both included."""
    span, steps = end - start, points - 1
    instants = [start + span * number / steps for number in range(points)]
    return [(at, effective_confidence(confidence, decay_rate, confirmed_at, at)) for at in instants]
