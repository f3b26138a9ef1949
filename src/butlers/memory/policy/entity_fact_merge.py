"""Which facts stay where several would hold at once under one key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from butlers.memory.policy.validity import Window

Row = Mapping[str, Any]

# Nobody is surer by less than this: the instants of two confirmations are not that exact.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class FactMerge:
    """A fact that gives way, and the one that stays."""

    winner: Row
    loser: Row

    @property
    def since(self) -> datetime | None:
        """When the one that stays was told, where that took the place of what was told before."""
        told: datetime = self.winner["created_at"]
        later = self.winner["valid_from"] is None and told > self.loser["created_at"]
        return told if later else None

    @property
    def why(self) -> str:
        """What decided."""
        if self.winner["trust"] != self.loser["trust"]:
            return "more trusted"
        return "surer" if _sureness(self.winner) != _sureness(self.loser) else "the target's own"


def settled(rows: Iterable[Row]) -> list[FactMerge]:
    """Each fact that gives way, in id order: the more trusted one stays, then the surer one now,
    and on a draw the target's own."""
    kept: dict[tuple[str, str], list[Row]] = {}
    lost = []
    for row in sorted(rows, key=_window_key):
        beside = kept.setdefault((row["scope"], row["predicate"]), [])
        winner = next((one for one in beside if _at_once(one, row)), None)
        if winner is None:
            beside.append(row)
        else:
            lost.append(FactMerge(winner, row))
    return sorted(lost, key=lambda one: one.loser["id"])


def _window_key(row: Row) -> tuple[Any, ...]:
    return (-row["trust"], -_sureness(row), not row["is_own"], row["id"])


def _sureness(row: Row) -> float:
    return round(float(row["effective_confidence"]), _DIGITS)


def _at_once(one: Row, other: Row) -> bool:
    """Whether two windows share a moment."""
    own, others = (Window(row["valid_from"], row["valid_to"]) for row in (one, other))
    return own.meets(others)
