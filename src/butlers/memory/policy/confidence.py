"""How sure a memory still is, and what is to become of it as that wanes."""

import math
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from butlers.errors import InvalidInput
from butlers.kernel import decay
from butlers.memory.model import Permanence
from butlers.memory.settings import FactsConfig

RULE_CONFIDENCE = 0.5
RULE_DECAY_RATE = 0.01
_RATES = {
    Permanence.PERMANENT: 0.0,
    Permanence.STABLE: 0.002,
    Permanence.STANDARD: 0.008,
    Permanence.VOLATILE: 0.03,
    Permanence.EPHEMERAL: 0.1,
}


class Verdict(StrEnum):
    """What an effective confidence makes of a memory."""

    SURE = "sure"
    FADING = "fading"
    SPENT = "spent"


@dataclass(frozen=True, slots=True)
class Band:
    """A range of effective confidence: its lower end belongs to it, its upper end does not."""

    least: float
    below: float


def bands(settings: FactsConfig) -> dict[Verdict, Band]:
    """The bands, which meet without gap: the sweep asks the database for the memories in each."""
    retrieval = settings.retrieval_confidence_threshold
    expiry = settings.expiry_confidence_threshold
    return {
        Verdict.SURE: Band(retrieval, math.inf),
        Verdict.FADING: Band(expiry, retrieval),
        Verdict.SPENT: Band(-math.inf, expiry),
    }


def decay_rate(permanence: str) -> float:
    """What a memory of this permanence loses per day; an unknown one lists the valid levels."""
    try:
        return _RATES[Permanence(permanence)]
    except ValueError:
        levels = ", ".join(Permanence)
        raise InvalidInput(f"permanence: found {permanence!r}; valid are {levels}") from None


def effective_confidence(
    confidence: float, decay_rate: float, confirmed_at: datetime | None, now: datetime
) -> float:
    """How much of a memory's confidence is left at `now`.

    Permanent memories (rate zero) never fade, confirmed or not; any other memory counts for
    nothing until somebody confirms it. Statements call the database function of the same name,
    which is this one in SQL; a test holds the two together.
    """
    if decay_rate == 0:
        return confidence
    if confirmed_at is None:
        return 0.0
    return confidence * decay.exponential(decay_rate, decay.days_between(confirmed_at, now))
