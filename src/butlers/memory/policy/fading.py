"""What is to become of a memory as its confidence wanes."""

import math
from dataclasses import dataclass
from enum import StrEnum

from butlers.memory.settings import FactsConfig


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

    def holds(self, confidence: float) -> bool:
        """Whether an effective confidence lies in it."""
        return self.least <= confidence < self.below


def bands(settings: FactsConfig) -> dict[Verdict, Band]:
    """The bands, which meet without gap: the sweep asks the database for the memories in each."""
    retrieval = settings.retrieval_confidence_threshold
    expiry = settings.expiry_confidence_threshold
    return {
        Verdict.SURE: Band(retrieval, math.inf),
        Verdict.FADING: Band(expiry, retrieval),
        Verdict.SPENT: Band(-math.inf, expiry),
    }


def verdict(confidence: float, settings: FactsConfig) -> Verdict:
    """What an effective confidence makes of a fact or rule."""
    return next(word for word, band in bands(settings).items() if band.holds(confidence))
