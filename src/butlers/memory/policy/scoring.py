"""What makes one memory more worth recalling than another."""

from dataclasses import dataclass
from datetime import datetime

from butlers.kernel import decay
from butlers.memory.settings import ScoreWeights

RECENCY_HALF_LIFE_DAYS = 7.0
_MOST_IMPORTANT = 10.0


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """Why a memory was recalled: each part between 0 and 1, before weighting."""

    relevance: float
    importance: float
    recency: float
    confidence: float

    def composite(self, weights: ScoreWeights) -> float:
        """The parts weighed and added."""
        return (
            weights.relevance * self.relevance
            + weights.importance * self.importance
            + weights.recency * self.recency
            + weights.confidence * self.confidence
        )


def score_parts(
    relevance: float,
    importance: float,
    last_referenced_at: datetime | None,
    confidence: float,
    now: datetime,
) -> ScoreParts:
    """The parts of a memory's score at `now`."""
    return ScoreParts(
        relevance=_within_one(relevance),
        importance=_within_one(importance / _MOST_IMPORTANT),
        recency=recency(last_referenced_at, now),
        confidence=confidence,
    )


def recency(last_referenced_at: datetime | None, now: datetime) -> float:
    """How fresh the last use is: half after seven days, nothing where there was none."""
    if last_referenced_at is None:
        return 0.0
    days = decay.days_between(last_referenced_at, now)
    return _within_one(decay.half_life(days, RECENCY_HALF_LIFE_DAYS))


def _within_one(value: float) -> float:
    return min(1.0, max(0.0, value))
