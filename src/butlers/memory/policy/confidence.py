"""How sure a memory still is, and how fast that wanes."""

from datetime import datetime

from butlers.kernel import decay
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
    days = decay.days_between(confirmed_at, now)
    return max(floor, confidence * decay.exponential(decay_rate, days))
