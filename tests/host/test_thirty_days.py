"""Thirty days of a default home without a language model: what was said on the first is found."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from butlers.auth.rights import Caller
from butlers.host.butler import Butler
from butlers.host.database import DatabaseServer
from butlers.host.home import butler_settings
from butlers.jobs.policy import RunOutcome
from butlers.memory.module import MemoryModule
from butlers.memory.operations import retrieval, storage
from conftest import WalkingClock
from interfaces.furnished import furnished_home
from jobs.machines import Machine

SAID = {
    "My name is Henrike Aalto and I live in Turku.": "Where does Henrike Aalto live?",
    "The boiler in the cellar is a Vaillant ecoTEC.": "Which boiler is in the cellar?",
    "We decided to deploy the invoicing service on Thursdays.": "When do we deploy invoicing?",
    "From now on always run the linter before committing.": "What to run before committing?",
    "My daughter Ilse is allergic to hazelnuts.": "What is Ilse allergic to?",
    "The spare key lies with our neighbour Mr Okafor.": "Who has the spare key?",
    "No, the meeting with Lindqvist is in room 4, not room 7.": "Room of the Lindqvist meeting?",
    "The staging database listens on port 6543.": "On which port is the staging database?",
    "Please remember that the dentist is called Dr Moreau.": "What is the dentist called?",
    "Never send the newsletter before Anna has read it.": "Who must read the newsletter first?",
    "Das Auto steht in der Tiefgarage auf Platz 112.": "Auf welchem Platz steht das Auto?",
    "Le code du portail est affiché dans la cuisine.": "Où est affiché le code du portail?",
}
HOURS = (0, 3, 4, 6, 12, 18)
DAYS = 30


@pytest.fixture
def machine(clock: WalkingClock) -> Machine:
    clock.now = clock.now.replace(hour=20)
    return Machine(clock)


@pytest.fixture
async def server() -> AsyncIterator[DatabaseServer]:
    with furnished_home("general") as home:
        home.create()
        home.create_butler("general")
        server = DatabaseServer(home)
        yield server
        await server.release()


@asynccontextmanager
async def served(server: DatabaseServer, machine: Machine) -> AsyncIterator[Butler]:
    """The butler as a daemon of this machine serves it."""
    settings = butler_settings(server.home, "general")
    butler = Butler(settings, server, clock=machine.clock, clock_sources=machine.clock_sources)
    await butler.start()
    try:
        yield butler
    finally:
        await butler.stop()


def context_of(butler: Butler) -> Any:
    module = butler.module(MemoryModule.name)
    return module.operation_context(Caller("default", "tester"))


async def say(butler: Butler, *statements: str) -> None:
    for statement in statements:
        await storage.store_episode.perform(context_of(butler), content=statement)


async def unfound(butler: Butler) -> list[str]:
    """The statements that a question finds no more, by search or by recall."""
    missing = []
    for statement, question in SAID.items():
        searched = await retrieval.search.perform(context_of(butler), query=question)
        recalled = await retrieval.recall.perform(context_of(butler), topic=question)
        if not all(
            any(one["content"] == statement for one in told) for told in (searched, recalled)
        ):
            missing.append(statement)
    return missing


async def a_day_passes(butler: Butler, machine: Machine) -> None:
    """Every job runs at its time."""
    schedule = butler.schedule()
    midnight = (machine.clock.now + timedelta(days=1)).replace(hour=0)
    for hour in HOURS:
        at = midnight.replace(hour=hour)
        machine.passes(seconds=(at - machine.clock.now).total_seconds())
        await schedule.look()
        await schedule.settled()
    machine.passes(hours=2)


async def jobs_told(butler: Butler) -> dict[str, tuple[RunOutcome, str | None]]:
    planned = await butler.schedule().plan()
    return {job.name: (job.last.outcome, job.last.error) for job in planned if job.last}


@pytest.mark.slow
@pytest.mark.contract("L25")
@pytest.mark.parametrize("restarts_every", [DAYS + 1, 4])
async def test_without_any_model_all_that_was_said_is_found_a_month_later(
    server: DatabaseServer, machine: Machine, restarts_every: int
) -> None:
    day = 1
    async with served(server, machine) as butler:
        await say(butler, *SAID)
        assert await unfound(butler) == []
    while day < DAYS:
        async with served(server, machine) as butler:
            for _ in range(min(restarts_every, DAYS - day)):
                await a_day_passes(butler, machine)
                day += 1
                await say(butler, f"On day {day} we talked about the weather and the garden.")
                if day % 9 == 0:
                    assert await unfound(butler) == [], day
    async with served(server, machine) as butler:
        assert await unfound(butler) == []
        told = await jobs_told(butler)
        assert told["episode_cleanup"] == told["decay_sweep"] == (RunOutcome.OK, None)
        outcome, reason = told["consolidate"]
        assert outcome is RunOutcome.SKIPPED
        assert (reason or "").startswith("no model (40 wait; oldest 28 days)")


@pytest.mark.slow
@pytest.mark.contract("L25", "L42")
async def test_so_it_is_on_a_machine_that_was_off_for_three_weeks(
    server: DatabaseServer, machine: Machine
) -> None:
    async with served(server, machine) as butler:
        await say(butler, *SAID)
        await a_day_passes(butler, machine)
    machine.is_off(days=21)
    async with served(server, machine) as butler:
        assert await unfound(butler) == []
        await a_day_passes(butler, machine)
        outcome, reason = (await jobs_told(butler))["episode_cleanup"]
        assert outcome is RunOutcome.SKIPPED
        assert "22 days more than anything here can vouch for" in (reason or "")
        assert await unfound(butler) == []
        machine.is_synchronised = True
        await a_day_passes(butler, machine)
        assert (await jobs_told(butler))["episode_cleanup"] == (RunOutcome.OK, None)
        assert await unfound(butler) == []


@pytest.mark.slow
@pytest.mark.contract("L42")
async def test_a_start_ten_years_ahead_loses_and_expires_nothing(
    server: DatabaseServer, machine: Machine
) -> None:
    async with served(server, machine) as butler:
        await say(butler, *SAID)
        await storage.store_fact.perform(
            context_of(butler),
            subject="Ann",
            predicate="drinks",
            content="tea",
            permanence="ephemeral",
        )
        await mark_read(server, list(SAID)[:3])
        before = await kept(server)
    machine.is_off(days=3650)
    for _ in range(2):
        async with served(server, machine) as butler:
            for _ in range(3):
                await a_day_passes(butler, machine)
            told = await jobs_told(butler)
            assert {told[job][0] for job in ("decay_sweep", "episode_cleanup")} == {
                RunOutcome.SKIPPED
            }
            assert "the clock is in doubt" in await butler.notes()
            assert "the clock says 2036" in (await butler.clock_watch.look() or "")
    machine.clock.advance(days=-3655)
    async with served(server, machine) as butler:
        await a_day_passes(butler, machine)
        told = await jobs_told(butler)
        assert told["decay_sweep"] == told["episode_cleanup"] == (RunOutcome.OK, None)
        assert await kept(server) == before
        assert await unfound(butler) == []


async def mark_read(server: DatabaseServer, statements: list[str]) -> None:
    connection = await asyncpg.connect(server.running_url("general"))
    await connection.execute(
        "update episodes set consolidated = true, consolidation_status = 'consolidated' "
        "where content = any($1)",
        statements,
    )
    await connection.close()


async def kept(server: DatabaseServer) -> set[tuple[str, str]]:
    """Everything there is, and how it stands."""
    connection = await asyncpg.connect(server.running_url("general"))
    rows = await connection.fetch(
        "select content, consolidation_status::text as state from episodes "
        "union all select content, validity from facts union all "
        "select episode ->> 'content', 'binned' from binned_episodes"
    )
    await connection.close()
    return {(row["content"], row["state"]) for row in rows}
