"""Confidence: how it decays over time, and when it will fall below a threshold."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from butlers.kernel import ranking
from butlers.memory.model import Permanence, Trust

RULE_CONFIDENCE = 0.5
INFERRED_CONFIDENCE = 0.7
"""The confidence of what a model drew from episodes."""
RULE_DECAY_RATE = 0.01
LOW_TRUST_DECAY_RATE, LOW_TRUST_DAYS = 0.1, 30
"""How what has low trust decays at least: without a confirmation it is gone after these days."""
DECAY_RATES = {
    Permanence.PERMANENT: 0.0,
    Permanence.STABLE: 0.002,
    Permanence.STANDARD: 0.008,
    Permanence.VOLATILE: 0.03,
    Permanence.EPHEMERAL: 0.1,
}
"""The decay rate per day of each permanence."""
_CURVE_POINTS = 25


def decay_rate(permanence: Permanence | None, trust: Trust) -> float:
    """Return how a fact decays, or a rule, which has no permanence: low trust always expires."""
    usual = DECAY_RATES[permanence] if permanence else RULE_DECAY_RATE
    return max(usual, LOW_TRUST_DECAY_RATE) if trust is Trust.LOW else usual


def effective_confidence(
    confidence: float,
    decay_rate: float,
    confirmed_at: datetime | None,
    now: datetime,
    floor: float = 0.0,
) -> float:
    """Return the confidence left at `now`, never less than the floor.

    With a rate of zero it never decays; otherwise it is the floor until somebody confirms it. The
    SQL function of the same name does the same; a test compares them.
    """
    if decay_rate == 0:
        return confidence
    if confirmed_at is None:
        return floor
    days = ranking.days_between(confirmed_at, now)
    return max(floor, confidence * ranking.exponential(decay_rate, days))


@dataclass(frozen=True, slots=True)
class Waning:
    """The decay of a memory's confidence while nobody confirms it."""

    confidence: float
    decay_rate: float
    confirmed_at: datetime | None
    floor: float = 0.0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Waning":
        """Return the decay of a stored fact or rule; a rule has a floor by its maturity."""
        floor = row.get("confidence_floor", 0.0)
        return cls(row["confidence"], row["decay_rate"], row["last_confirmed_at"], floor)

    def left_at(self, at: datetime) -> float:
        """Return the confidence at a time."""
        return effective_confidence(
            self.confidence, self.decay_rate, self.confirmed_at, at, self.floor
        )

    def falls_below_at(self, threshold: float) -> datetime | None:
        """Return when it falls below a threshold unless confirmed again; None if never."""
        if self.decay_rate == 0 or self.confidence <= 0 or self.confirmed_at is None:
            return None
        if threshold <= self.floor:
            return None
        days = max(0.0, math.log(self.confidence / threshold) / self.decay_rate)
        try:
            return self.confirmed_at + timedelta(days=days)
        except OverflowError:  # later than any calendar goes
            return None

    def curve(self, start: datetime, end: datetime) -> list[tuple[datetime, float]]:
        """Return the confidence at evenly spaced times from start to end, both included."""
        span, steps = end - start, _CURVE_POINTS - 1
        instants = [start + span * number / steps for number in range(_CURVE_POINTS)]
        return [(at, self.left_at(at)) for at in instants]
