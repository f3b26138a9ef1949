"""The clock is not believed alone: which jumps are doubted, and what ends the doubt."""

from collections.abc import Callable
from datetime import datetime, timedelta

import asyncpg
import pytest

from butlers.clock import clock_sources_of, utc_now
from butlers.db.postgres import Database
from conftest import WalkingClock
from jobs.machines import Machine


@pytest.fixture
def machine(clock: WalkingClock) -> Machine:
    return Machine(clock)


@pytest.mark.contract("L42")
async def test_time_that_passes_is_believed_however_long(machine: Machine, core: Database) -> None:
    assert await machine.watch(core).doubt() is None
    for days in (0.25, 1, 40, 400):
        machine.passes(days=days)
        assert await machine.watch(core).doubt() is None


@pytest.mark.contract("L42")
async def test_a_jump_is_doubted_until_the_clock_is_back(machine: Machine, core: Database) -> None:
    watch = machine.watch(core)
    await watch.doubt()
    machine.passes(hours=6)
    machine.clock.advance(days=3650)
    told = await watch.doubt()
    assert told is not None
    assert "the clock says 2036-01-08 18:00, 3,650 days more than the machine saw pass" in told
    assert "2026-01-10 12:00" in told and "butlers jobs accept-clock" in told
    machine.passes(days=30)
    assert await watch.doubt() is not None
    assert await machine.watch(core).look() is not None
    machine.clock.advance(days=-3650)
    assert await watch.doubt() is None


@pytest.mark.contract("L42")
async def test_a_day_is_not_worth_a_doubt(machine: Machine, core: Database) -> None:
    await machine.watch(core).doubt()
    machine.clock.advance(days=1)
    assert await machine.watch(core).look() is None
    machine.clock.advance(microseconds=1)
    assert await machine.watch(core).look() is not None


@pytest.mark.contract("L42")
async def test_a_start_with_a_wrong_clock_is_doubted_and_stays_so(
    machine: Machine, core: Database
) -> None:
    await machine.watch(core).doubt()
    machine.is_off(days=3650)
    told = await machine.watch(core).doubt()
    assert told is not None and "more than anything here can vouch for" in told
    machine.is_off(minutes=10)
    machine.passes(days=2)
    assert await machine.watch(core).doubt() is not None


@pytest.mark.contract("L42")
async def test_a_machine_that_was_off_for_weeks_is_believed_once_its_clock_is_synchronised(
    machine: Machine, core: Database
) -> None:
    await machine.watch(core).doubt()
    machine.is_off(days=21)
    assert await machine.watch(core).doubt() is not None
    machine.is_synchronised = True
    assert await machine.watch(core).doubt() is None
    machine.is_synchronised = False
    machine.passes(days=2)
    assert await machine.watch(core).doubt() is None


@pytest.mark.contract("L42")
async def test_somebody_may_say_that_it_is_right(machine: Machine, core: Database) -> None:
    watch = machine.watch(core)
    await watch.doubt()
    machine.is_off(days=21)
    assert await watch.doubt() is not None
    assert await watch.accept() == machine.clock.now
    assert await watch.doubt() is None
    machine.clock.advance(days=-10)
    assert await watch.doubt() is None
    await watch.accept()
    machine.clock.advance(days=10)
    assert await watch.doubt() is not None


async def test_a_clock_set_back_for_a_while_is_no_reason_to_doubt_what_was(
    machine: Machine, core: Database
) -> None:
    watch = machine.watch(core)
    await watch.doubt()
    machine.clock.advance(days=-20_000)
    assert await watch.doubt() is None
    machine.clock.advance(days=20_000)
    assert await watch.doubt() is None


@pytest.mark.contract("L42")
async def test_of_two_machines_neither_makes_the_other_doubt_nor_hides_what_is_doubtful(
    machine: Machine, core: Database
) -> None:
    other = Machine(WalkingClock(), boot="another", seconds=70.0)
    await machine.watch(core).doubt()
    await other.watch(core).doubt()
    for one in (machine, other):  # both run on while no butler is up
        one.passes(days=10)
    assert await other.watch(core).doubt() is None
    assert await machine.watch(core).doubt() is None
    other.clock.advance(days=30)
    assert await other.watch(core).doubt() is not None
    assert await machine.watch(core).doubt() is None
    assert await other.watch(core).doubt() is not None
    await other.watch(core).accept()
    assert await other.watch(core).doubt() is None
    machine.clock.advance(days=20)  # less than the other's, which somebody said is right
    assert await machine.watch(core).doubt() is not None


async def test_looking_puts_nothing_on_record(
    machine: Machine, core: Database, core_owner: asyncpg.Connection
) -> None:
    assert await machine.watch(core).look() is None
    assert await core_owner.fetchval("select count(*) from clock_believed") == 0


def test_the_machine_itself_can_be_asked() -> None:
    clock_sources = clock_sources_of(utc_now)
    assert clock_sources.boot() == clock_sources.boot() != ""
    assert 0 < clock_sources.seconds() <= clock_sources.seconds()
    assert clock_sources.is_synchronised() in (True, False)


def test_a_clock_that_is_walked_is_its_own_witness(clock: WalkingClock) -> None:
    walked: Callable[[], datetime] = clock
    clock_sources = clock_sources_of(walked)
    before = clock_sources.seconds()
    clock.advance(days=2)
    assert clock_sources.seconds() - before == timedelta(days=2).total_seconds()
