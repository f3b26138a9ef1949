"""Confidence: how it decays over time, and when it will fall below a threshold."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from butlers.kernel import ranking
from butlers.memory.model import Permanence

RULE_CONFIDENCE = 0.5
INFERRED_CONFIDENCE = 0.7
"""What a model drew from episodes is less sure than what somebody stated."""
RULE_DECAY_RATE = 0.01
DECAY_RATES = {
    Permanence.PERMANENT: 0.0,
    Permanence.STABLE: 0.002,
    Permanence.STANDARD: 0.008,
    Permanence.VOLATILE: 0.03,
    Permanence.EPHEMERAL: 0.1,
}
"""What a memory of each permanence loses per day."""


def effective_confidence(
    confidence: float,
    decay_rate: float,
    confirmed_at: datetime | None,
    now: datetime,
    floor: float = 0.0,
) -> float:
    """How much of a memory's confidence is left at `now`, and never less than its floor.

    Permanent memories (rate zero) never fade, confirmed or not; any other memory counts for
    nothing until somebody confirms it. Statements call the database function of the same name,
    which is this one in SQL; a test holds the two together.
    """
    if decay_rate == 0:
        return confidence
    if confirmed_at is None:
        return floor
    days = ranking.days_between(confirmed_at, now)
    return max(floor, confidence * ranking.exponential(decay_rate, days))


@dataclass(frozen=True, slots=True)
class Waning:
    """How a memory loses confidence while nobody confirms it."""

    confidence: float
    decay_rate: float
    confirmed_at: datetime | None
    floor: float = 0.0
    """What it keeps, however long that is."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Waning":
        """How a stored fact or rule does; maturity puts a floor under a rule."""
        kept = row.get("confidence_floor", 0.0)
        return cls(row["confidence"], row["decay_rate"], row["last_confirmed_at"], kept)

    def left_at(self, at: datetime) -> float:
        """Effective confidence at an instant."""
        return effective_confidence(
            self.confidence, self.decay_rate, self.confirmed_at, at, self.floor
        )

    def falls_below_at(self, threshold: float) -> datetime | None:
        """The instant from which it is below a threshold, unless confirmed again.

        None for what never gets there, and for what counts for nothing already.
        """
        if self.decay_rate == 0 or self.confidence <= 0 or self.confirmed_at is None:
            return None
        if threshold <= self.floor:
            return None
        days = max(0.0, math.log(self.confidence / threshold) / self.decay_rate)
        try:
            return self.confirmed_at + timedelta(days=days)
        except OverflowError:  # later than any calendar goes
            return None

    def curve(
        self, start: datetime, end: datetime, points: int = 25
    ) -> list[tuple[datetime, float]]:
        """Effective confidence at evenly spaced instants from start to end, both included."""
        span, steps = end - start, points - 1
        instants = [start + span * number / steps for number in range(points)]
        return [(at, self.left_at(at)) for at in instants]
