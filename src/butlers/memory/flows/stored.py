"""What a caller is told of what it stored."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.memory.flows.anchoring import NOBODY, Identity


@dataclass(frozen=True)
class _Told:
    """What a caller is told of what it stored, and how many secrets were masked on the way."""

    masked: int = field(default=0, kw_only=True)

    def as_dict(self) -> dict[str, Any]:
        """What was stored; of secrets and reasons to wait only where there are any."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        whom: dict[str, Any] = told.pop("identity", NOBODY).as_dict()
        seldom = {name: told.pop(name) for name in ("waits", "masked")}
        return told | {name: value for name, value in seldom.items() if value} | whom


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
    identity: Identity = NOBODY


@dataclass(frozen=True)
class StoredRule(_Told):
    """A rule that was stored."""

    id: UUID
    waits: str | None = None


Stored = StoredEpisode | StoredFact | StoredRule
