"""Where a fact goes among others of its key: at any moment one thing holds, what was told last."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.memory.policy.validity import OPEN, ExistingFact, Placement, Window, place_fact, room

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
NOW = FIRST + timedelta(days=10)
MOMENTS = [FIRST + timedelta(days=n, hours=12) for n in range(-2, 23)]

days = st.integers(0, 20).map(lambda n: FIRST + timedelta(days=n))


def window_of(bounds):
    first, last = bounds
    return Window(min(bounds), max(bounds)) if first and last else Window(first, last)


windows = (
    st.tuples(st.none() | days, st.none() | days)
    .filter(lambda pair: pair[0] is None or pair[0] != pair[1])
    .map(window_of)
)


@st.composite
def keys(draw):
    """What is told of a key, by being told one after the other."""
    told: list[ExistingFact] = []
    for wanted in draw(st.lists(windows, max_size=6)):
        told = after(place_fact(wanted, told, NOW), told, says_same=draw(st.booleans()))
    return told


def after(found: Placement, told, *, says_same=False):
    """What is told of the key once a fact has its place."""
    changes = {one.of.id: one for one in found.changes}
    left = []
    for one in told:
        change = changes.get(one.id)
        if change is None:
            left.append(one)
            continue
        active = one.is_active and not change.gives_way
        for window in (change.window, change.copy):
            if window is not None and not window.is_empty:
                since = window.valid_from or one.since
                left.append(ExistingFact(uuid.uuid4(), window, since, active, one.says_same))
    new = ExistingFact(uuid.uuid4(), found.window, found.window.valid_from or NOW, True, says_same)
    return [*left, new]


def holding(told, at):
    return [one for one in told if one.window.holds(at)]


@pytest.mark.contract("L38")
@given(keys(), windows, st.none() | days)
def test_at_any_moment_one_fact_holds_at_most_and_within_its_window_the_last(told, wanted, said):
    found = place_fact(wanted, told, NOW, said)
    assert not found.window.is_empty
    stands = after(found, told)
    for at in MOMENTS:
        held = holding(stands, at)
        assert len(held) <= 1
        if found.window.holds(at):
            assert held == [stands[-1]]
        elif not (before := holding(told, at)) or before[0].id == found.same:
            assert held == []


@given(keys(), windows)
def test_a_time_that_is_told_is_kept_and_a_statement_of_now_holds_now(told, wanted):
    found = place_fact(wanted, told, NOW)
    if wanted == OPEN:
        assert found.window.holds(NOW)
    if wanted.valid_from is not None:
        assert found.window.valid_from == wanted.valid_from
    if wanted.valid_to is not None:
        assert found.window.valid_to == wanted.valid_to
    gone = [one for one in found.changes if one.gives_way]
    assert (found.replaced is None) == (not gone)
    for one in gone:
        assert one.window.is_empty or one.window.is_over(NOW)


@given(keys(), windows)
def test_room_meets_nothing_and_lies_within(told, wanted):
    free = room(wanted, told, NOW)
    if free is None:
        assert all(holding(told, at) for at in MOMENTS if wanted.holds(at))
        return
    assert not any(one.window.meets(free) for one in told)
    assert all(wanted.holds(at) for at in MOMENTS if free.holds(at))


def test_what_holds_now_keeps_its_row_and_what_comes_back_is_a_copy():
    present = ExistingFact(uuid.uuid4(), Window(FIRST), FIRST)
    away = Window(NOW + timedelta(days=2), NOW + timedelta(days=4))
    (change,) = place_fact(away, [present], NOW).changes
    assert change.window == Window(FIRST, away.valid_from)
    assert (change.copy, change.gives_way) == (Window(away.valid_to), False)


def test_nothing_known_of_the_key_leaves_the_time_open():
    assert place_fact(OPEN, [], NOW) == Placement(OPEN)
