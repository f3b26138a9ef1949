import random
from datetime import UTC, datetime, timedelta
from math import nan
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butlers.kernel.ranking import best_first

OLD = datetime(2026, 1, 1, tzinfo=UTC)
NEW = OLD + timedelta(microseconds=1)
ROW = st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([OLD, NEW]), st.uuids())


def identifier(number: int) -> UUID:
    return UUID(int=number)


@pytest.mark.contract("R34.1")
def test_score_then_the_later_then_the_lower_id() -> None:
    expected = [
        (0.9, OLD, identifier(9)),
        (0.5, NEW, identifier(7)),
        (0.5, OLD, identifier(1)),
        (0.5, OLD, identifier(2)),
        (0.1, NEW, identifier(0)),
        (nan, NEW, identifier(0)),
    ]
    for seed in range(20):
        shuffled = random.Random(seed).sample(expected, len(expected))
        assert sorted(shuffled, key=lambda row: best_first(*row)) == expected


@pytest.mark.contract("R34.1")
@settings(max_examples=50)
@given(st.lists(ROW, unique_by=lambda row: row[2], max_size=12), st.randoms())
def test_the_order_does_not_depend_on_where_rows_stood(rows: list, shuffler: random.Random) -> None:
    expected = sorted(rows, key=lambda row: best_first(*row))
    shuffler.shuffle(rows)
    assert sorted(rows, key=lambda row: best_first(*row)) == expected
    stepwise = sorted(rows, key=lambda row: row[2].int)
    stepwise.sort(key=lambda row: (row[0], row[1]), reverse=True)
    assert expected == stepwise
