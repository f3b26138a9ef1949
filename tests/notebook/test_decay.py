"""What age does to a score."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.notebook import (
    AgentMemory,
    MemoryStatus,
    ScoredMemory,
    Source,
    apply_decay,
    compute_decay_multiplier,
)
from butlers.notebook.model import to_text

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def scored(key: str, score: float, age: timedelta) -> ScoredMemory:
    at = to_text(NOW - age)
    memory = AgentMemory(key, "a", key, "", None, MemoryStatus.PENDING, False, at, at)
    return ScoredMemory(memory, score, Source.FTS5)


@pytest.mark.contract("K-A1", "K-I2")
@pytest.mark.parametrize(
    ("age", "multiplier"),
    [
        (timedelta(0), 1.0),
        (timedelta(days=7, seconds=-1), 1.0),
        (timedelta(days=7), 0.8),
        (timedelta(days=30, seconds=-1), 0.8),
        (timedelta(days=30), 0.6),
        (timedelta(days=90, seconds=-1), 0.6),
        (timedelta(days=90), 0.4),
        (timedelta(days=9000), 0.4),
        (timedelta(days=-3), 1.0),
    ],
)
def test_the_steps(age: timedelta, multiplier: float) -> None:
    assert compute_decay_multiplier(to_text(NOW - age), NOW) == multiplier


@pytest.mark.contract("K-I2")
@given(st.timedeltas(timedelta(days=-60_000), timedelta(days=60_000)))
def test_never_below_the_floor(age: timedelta) -> None:
    assert 0.4 <= compute_decay_multiplier(to_text(NOW - age), NOW) <= 1.0


@pytest.mark.contract("L24")
def test_a_time_without_a_zone_is_utc_wherever_the_reader_is() -> None:
    reader = timezone(timedelta(hours=14))
    just_young = to_text(NOW - timedelta(days=7, seconds=-1))
    assert compute_decay_multiplier(just_young, NOW.astimezone(reader)) == 1.0
    assert compute_decay_multiplier(f"{just_young}Z", NOW) == 1.0
    assert compute_decay_multiplier(f"{just_young}+02:00", NOW) == 0.8


def test_a_time_nobody_can_read_is_old() -> None:
    assert compute_decay_multiplier("last spring", NOW) == 0.4


def test_without_a_moment_it_is_now() -> None:
    assert compute_decay_multiplier("2000-01-01 00:00:00") == 0.4


@pytest.mark.contract("K-S3", "K-I3")
def test_a_recent_note_overtakes_an_old_one() -> None:
    old = scored("old", 1.0, timedelta(days=180))
    recent = scored("recent", 0.5, timedelta(days=2))
    found = apply_decay([old, recent], NOW)
    assert [(r.memory.key, r.score) for r in found] == [("recent", 0.5), ("old", 0.4)]
