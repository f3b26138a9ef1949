"""States of memories as callers name them, and counts of each state over time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from itertools import accumulate
from typing import Any

from butlers.memory.model import ConsolidationStatus, EventType, MemoryType


class FactState(StrEnum):
    """The states of a fact."""

    ACTIVE = "active"
    FADING = "fading"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    RETRACTED = "retracted"
    QUARANTINED = "quarantined"


class RuleUse(StrEnum):
    """The states of a rule."""

    ACTIVE = "active"
    FADING = "fading"
    FORGOTTEN = "forgotten"
    QUARANTINED = "quarantined"


class EpisodeState(StrEnum):
    """The states of an episode."""

    ACTIVE = "active"
    EXPIRED = "expired"
    QUARANTINED = "quarantined"


class EntityState(StrEnum):
    """The states of an entity: in use, or merged into another."""

    ACTIVE = "active"
    MERGED = "merged"


Series = dict[str, list[int]]

_OUTCOMES = {
    EventType.EPISODE_CONSOLIDATED: "consolidated",
    EventType.EPISODE_CONSOLIDATION_FAILED: "failed",
    EventType.EPISODE_DEAD_LETTERED: "dead_letter",
}


@dataclass(frozen=True, slots=True)
class TimelineCounts:
    """Counts for each day: facts and episodes by state, and outcomes of consolidation."""

    days: list[date]
    facts: Series
    episodes: Series
    consolidation: Series


def timeline(days: Sequence[date], moves: Sequence[Mapping[str, Any]]) -> TimelineCounts:
    """Count by day; the first day sums up everything before, and is not returned."""
    facts = [move for move in moves if move["memory_type"] == MemoryType.FACT]
    episodes = [move for move in moves if move["memory_type"] == MemoryType.EPISODE]
    ended = [(_OUTCOMES.get(move["event_type"]), move["day"], move["count"]) for move in episodes]
    outcomes = _changes(days, _OUTCOMES.values(), ended)
    return TimelineCounts(
        list(days[1:]),
        _states_by_day(days, facts, FactState),
        _states_by_day(days, episodes, ConsolidationStatus),
        {name: counts[1:] for name, counts in outcomes.items()},
    )


def days_until(last: date, count: int) -> list[date]:
    """Return `count` consecutive days up to and including the last."""
    return [last - timedelta(days=back) for back in reversed(range(count))]


def _states_by_day(
    days: Sequence[date], moves: Sequence[Mapping[str, Any]], states: type[StrEnum]
) -> Series:
    """Count how many are in each state at the end of each day."""
    came = [(move["became"], move["day"], move["count"]) for move in moves]
    left = [(move["was"], move["day"], -move["count"]) for move in moves]
    changes = _changes(days, [state.value for state in states], [*came, *left])
    # Never below zero: a row may be older than its first event.
    return {
        state: [max(0, count) for count in accumulate(counts)][1:]
        for state, counts in changes.items()
    }


def _changes(
    days: Sequence[date], names: Iterable[str], counted: Iterable[tuple[str | None, date, int]]
) -> Series:
    """Sum counts by name and day; other names are left out."""
    place = {day: at for at, day in enumerate(days)}
    changes: Series = {name: [0] * len(days) for name in names}
    for name, day, count in counted:
        if name in changes:
            changes[name][place[day]] += count
    return changes
