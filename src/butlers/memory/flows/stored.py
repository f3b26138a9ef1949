"""What a caller is told of what it stored."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import UUID

_SELDOM = ("waits", "confirmed", "valid_from", "valid_to", "masked")


@dataclass(frozen=True)
class _Told:
    """What a caller is told of what it stored, and how many secrets were masked on the way."""

    masked: int = field(default=0, kw_only=True)

    def as_dict(self) -> dict[str, Any]:
        """What was stored; of what is told seldom, secrets above all, only what there is."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in told.items() if value or name not in _SELDOM}


@dataclass(frozen=True)
class StoredEpisode(_Told):
    """An episode that was stored; `waits` says what for, where it is told to nobody yet."""

    id: UUID
    expires_at: datetime
    waits: str | None = None


@dataclass(frozen=True)
class StoredFact(_Told):
    """A fact that was stored, and the one it replaced.

    One that waits for a yes because of a more trusted one is known by its proposal's id.
    """

    id: UUID
    superseded_id: UUID | None
    waits: str | None = None
    confirmed: bool = False
    valid_from: datetime | None = None
    valid_to: datetime | None = None


@dataclass(frozen=True)
class StoredRule(_Told):
    """A rule that was stored."""

    id: UUID
    waits: str | None = None


Stored = StoredEpisode | StoredFact | StoredRule
