"""The one word a reader is shown for how something stands, whatever columns say it."""

from enum import StrEnum


class FactState(StrEnum):
    """The one word a reader is shown for how a fact stands."""

    ACTIVE = "active"
    FADING = "fading"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    RETRACTED = "retracted"
    QUARANTINED = "quarantined"


class RuleUse(StrEnum):
    """The one word a reader is shown for whether a rule is in use."""

    ACTIVE = "active"
    FADING = "fading"
    FORGOTTEN = "forgotten"
    QUARANTINED = "quarantined"


class EpisodeState(StrEnum):
    """The one word a reader is shown for whether an episode still counts."""

    ACTIVE = "active"
    EXPIRED = "expired"
    QUARANTINED = "quarantined"


class EntityState(StrEnum):
    """Whether an entity lives or was merged into another."""

    ACTIVE = "active"
    MERGED = "merged"
