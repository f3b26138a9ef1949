import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butlers.errors import InvalidInput
from butlers.kernel.ranking import days_between, exponential, half_life

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_days_are_counted_in_parts_and_across_time_zones() -> None:
    assert days_between(NOW, NOW + timedelta(hours=36)) == 1.5
    assert days_between(NOW.astimezone(timezone(timedelta(hours=9))), NOW) == 0


@pytest.mark.contract("L4")
def test_an_instant_still_to_come_is_no_days_ago() -> None:
    assert days_between(NOW + timedelta(days=3), NOW) == 0


@pytest.mark.parametrize(
    ("rate", "days", "left"), [(0, 1e9, 1), (0.1, 0, 1), (0.008, 30, 0.7866279)]
)
def test_exponential_decay(rate: float, days: float, left: float) -> None:
    assert exponential(rate, days) == pytest.approx(left)


@settings(max_examples=50)
@given(st.floats(0, 10), st.floats(0, 1e6), st.floats(0, 1e6))
def test_what_is_left_only_shrinks_and_stays_between_0_and_1(
    rate: float, sooner: float, further: float
) -> None:
    left_sooner, left_later = exponential(rate, sooner), exponential(rate, sooner + further)
    assert 0 <= left_later <= left_sooner <= 1


@pytest.mark.contract("R08.2")
def test_half_is_left_after_a_half_life() -> None:
    assert half_life(7, 7) == pytest.approx(0.5)
    assert half_life(21, 7) == pytest.approx(0.125)
    assert half_life(10, 7) == pytest.approx(math.exp(-math.log(2) / 7 * 10))
    assert half_life(-5, 7) == 1


@pytest.mark.parametrize("impossible", [0, -1])
def test_a_half_life_takes_time(impossible: float) -> None:
    with pytest.raises(InvalidInput, match="half_life_days"):
        half_life(1, impossible)
