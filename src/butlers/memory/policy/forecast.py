"""When a memory will have lost too much of its confidence."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from butlers.memory.policy.confidence import effective_confidence


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
