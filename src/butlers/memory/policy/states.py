"""States of memories as callers name them, and counts of each state over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from itertools import accumulate
from typing import Any

from butlers.memory.model import ConsolidationStatus, EventType, MemoryType


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


Series = dict[str, list[int]]

_OUTCOMES = {
    EventType.EPISODE_CONSOLIDATED: "consolidated",
    EventType.EPISODE_CONSOLIDATION_FAILED: "failed",
    EventType.EPISODE_DEAD_LETTERED: "dead_letter",
}


@dataclass(frozen=True, slots=True)
class TimelineCounts:
    """Counts for each day: facts and episodes in each state, and how consolidation ended."""

    days: list[date]
    facts: Series
    episodes: Series
    consolidation: Series


def timeline(days: Sequence[date], moves: Sequence[Mapping[str, Any]]) -> TimelineCounts:
    """The counts on consecutive days; the first stands for all that was before, and is not told."""
    facts = [move for move in moves if move["memory_type"] == MemoryType.FACT]
    episodes = [move for move in moves if move["memory_type"] == MemoryType.EPISODE]
    return TimelineCounts(
        list(days[1:]),
        _states_by_day(days, facts, FactState),
        _states_by_day(days, episodes, ConsolidationStatus),
        _outcomes(days, episodes),
    )


def days_until(last: date, count: int) -> list[date]:
    """So many consecutive days, the last one included."""
    return [last - timedelta(days=back) for back in reversed(range(count))]


def _states_by_day(
    days: Sequence[date], moves: Sequence[Mapping[str, Any]], states: type[StrEnum]
) -> Series:
    """How many are in each state at the end of each day."""
    place = {day: at for at, day in enumerate(days)}
    changes: Series = {state.value: [0] * len(days) for state in states}
    for move in moves:
        at = place[move["day"]]
        if move["became"] in changes:
            changes[move["became"]][at] += move["count"]
        if move["was"] in changes:
            changes[move["was"]][at] -= move["count"]
    # Never below nothing: a row may be older than the audit stream.
    return {
        state: [max(0, count) for count in accumulate(counts)][1:]
        for state, counts in changes.items()
    }


def _outcomes(days: Sequence[date], moves: Sequence[Mapping[str, Any]]) -> Series:
    place = {day: at for at, day in enumerate(days)}
    counted: Series = {name: [0] * len(days) for name in _OUTCOMES.values()}
    for move in moves:
        name = _OUTCOMES.get(move["event_type"])
        if name is not None:
            counted[name][place[move["day"]]] += move["count"]
    return {name: counts[1:] for name, counts in counted.items()}
