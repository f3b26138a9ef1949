"""When jobs run, as arithmetic."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from butlers.jobs.policy import (
    MAX_ATTEMPTS,
    Cause,
    Claim,
    Step,
    decide,
    due_tick,
    newest_tick,
    next_tick,
    seconds_to_wait,
)

NOON = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
EVERY_SIX_HOURS = "0 */6 * * *"
HOUR = timedelta(hours=1)
CRONS = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "0 */6 * * *", "0 3 * * *", "30 4 * * 1", "5 * * * * *"]
)
MOMENTS = st.timedeltas(timedelta(days=-500), timedelta(days=500)).map(NOON.__add__)


@pytest.mark.contract("P3")
@pytest.mark.parametrize(
    ("now", "newest", "following"),
    [
        (NOON, NOON, NOON + 6 * HOUR),
        (NOON + timedelta(microseconds=1), NOON, NOON + 6 * HOUR),
        (NOON - timedelta(microseconds=1), NOON - 6 * HOUR, NOON),
        (NOON + timedelta(minutes=59), NOON, NOON + 6 * HOUR),
    ],
)
def test_a_tick_is_due_from_its_very_moment(
    now: datetime, newest: datetime, following: datetime
) -> None:
    assert newest_tick(EVERY_SIX_HOURS, now) == newest
    assert next_tick(EVERY_SIX_HOURS, now) == following


@settings(deadline=None, max_examples=50)
@given(CRONS, MOMENTS)
def test_looking_back_finds_what_looking_forward_passed(cron: str, now: datetime) -> None:
    forward = CronSim(cron, now - timedelta(days=8))
    *_, last = takewhile(lambda tick: tick <= now, forward)
    assert newest_tick(cron, now) == last
    following = next_tick(cron, now)
    assert following is not None
    assert now < following
    assert newest_tick(cron, following) == following


def test_other_time_zones_change_nothing() -> None:
    elsewhere = NOON.astimezone(tz=None)
    assert newest_tick(EVERY_SIX_HOURS, elsewhere) == NOON


def test_a_job_without_a_time_never_runs() -> None:
    assert next_tick("", NOON) is None
    assert due_tick("", NOON - 48 * HOUR, None, NOON) is None


@pytest.mark.contract("L23")
@pytest.mark.parametrize(
    ("since", "last", "due"),
    [
        (NOON, None, None),  # seen for the first time this very moment
        (NOON - HOUR, None, NOON),
        (NOON - 100 * HOUR, None, NOON),  # many were missed: the newest alone
        (NOON - 100 * HOUR, NOON - 6 * HOUR, NOON),
        (NOON - 100 * HOUR, NOON, None),
        (NOON - 100 * HOUR, NOON + HOUR, None),  # asked for after the tick
    ],
)
def test_only_the_newest_tick_is_due_and_only_after_what_was_done(
    since: datetime, last: datetime | None, due: datetime | None
) -> None:
    assert due_tick(EVERY_SIX_HOURS, since, last, NOON + timedelta(hours=2)) == due


def held(until: datetime, attempt: int = 1, cause: Cause = Cause.SCHEDULE) -> Claim:
    return Claim(1, "sweep", NOON - 6 * HOUR, cause, attempt, "host:1", until)


@pytest.mark.parametrize(
    ("due", "run", "step"),
    [
        (None, None, Step.WAIT),
        (NOON, None, Step.START),
        (None, held(NOON + HOUR), Step.WAIT),
        (NOON, held(NOON + HOUR), Step.SKIP),
        (None, held(NOON), Step.TAKE_OVER),
        (None, held(NOON, MAX_ATTEMPTS - 1), Step.TAKE_OVER),
        (None, held(NOON, MAX_ATTEMPTS), Step.GIVE_UP),
        (NOON, held(NOON), Step.GIVE_UP),  # the newer tick does the work of the older
        (None, held(NOON, cause=Cause.REQUEST), Step.GIVE_UP),  # who asked is gone
    ],
)
def test_what_to_do_depends_on_what_is_due_and_who_holds_the_job(
    due: datetime | None, run: Claim | None, step: Step
) -> None:
    assert decide(due, run, NOON) is step


def test_the_schedule_sleeps_until_the_next_tick_but_never_for_long() -> None:
    assert seconds_to_wait([EVERY_SIX_HOURS, ""], NOON, 30) == 30
    assert seconds_to_wait(["* * * * *"], NOON + timedelta(seconds=50), 30) == 10
    assert seconds_to_wait([], NOON, 30) == 30
    almost = NOON - timedelta(microseconds=1)
    assert 0 < seconds_to_wait([EVERY_SIX_HOURS], almost, 30) < 1
