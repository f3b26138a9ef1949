"""The schedule against any story of processes that come, look, work, die and come back."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from butlers.db.postgres import Access, Database
from butlers.jobs.policy import Claim, RunOutcome, newest_tick
from butlers.jobs.runs import Ending, Run
from butlers.jobs.schedule import Schedule, ScheduleIntervals
from butlers.module import Job
from conftest import WalkingClock
from db.databases import connected
from jobs.conftest import EMPTY

CRON, LEASE = "*/10 * * * *", 90
PROCESSES = range(3)

DEEDS = st.one_of(
    st.tuples(st.just("walk"), st.integers(1, 8000)),
    st.tuples(st.just("look"), st.sampled_from(PROCESSES)),
    st.tuples(st.just("finish"), st.sampled_from(PROCESSES)),
    st.tuples(st.just("die"), st.sampled_from(PROCESSES)),
)


async def _never() -> dict[str, Any]:
    raise AssertionError("what is begun is ended by the story")


class Process(Schedule):
    """A schedule whose runs go on until the story ends them."""

    def __init__(self, database: Database, clock: WalkingClock, name: str) -> None:
        job = Job("sweep", CRON, _never)
        super().__init__(database, [job], clock=clock, worker=name, pace=ScheduleIntervals(LEASE))
        self.claims: list[Claim] = []

    def _begin(self, job: Job, claim: Claim) -> None:
        self.claims.append(claim)

    async def renew(self) -> None:
        self.claims = [claim for claim in self.claims if await self._renew(claim)]

    async def finish(self) -> None:
        for claim in self.claims:
            await self._settle(claim, Ending(RunOutcome.OK))
        self.claims = []


@dataclass
class Story:
    """What happens, and what must hold whatever happens."""

    database: Database
    clock: WalkingClock = field(default_factory=WalkingClock)
    lives: int = 0
    began: list[tuple[int, int]] = field(default_factory=list)
    seen_at: datetime | None = None

    def __post_init__(self) -> None:
        self.processes = [self._born() for _ in PROCESSES]

    def _born(self) -> Process:
        self.lives += 1
        return Process(self.database, self.clock, f"process {self.lives}")

    async def happens(self, deed: str, which: int) -> None:
        if deed == "walk":
            await self._walk(which)
        elif deed == "look":
            await self._look(self.processes[which])
        elif deed == "finish":
            await self.processes[which].finish()
        else:
            self.processes[which] = self._born()

    async def _walk(self, seconds: int) -> None:
        """Time passes, in which those who live keep what they hold."""
        for step in [LEASE / 3] * int(seconds // (LEASE / 3)):
            self.clock.advance(seconds=step)
            for process in self.processes:
                await process.renew()
        self.clock.advance(seconds=seconds % (LEASE / 3))

    async def _look(self, process: Process) -> None:
        self.seen_at = self.seen_at or self.clock.now
        had = len(process.claims)
        await process.look()
        self.began += [(claim.id, claim.attempt) for claim in process.claims[had:]]
        await self._holds()

    async def _holds(self) -> None:
        runs = await self.processes[0].history(limit=200)
        assert len(self.began) == len(set(self.began))
        holders = [claim for process in self.processes for claim in process.claims]
        assert len(holders) <= 1
        self._newest_is_dealt_with(runs)
        self._nothing_older_was_begun(runs)

    def _newest_is_dealt_with(self, runs: list[Run]) -> None:
        tick = newest_tick(CRON, self.clock.now)
        assert self.seen_at is not None
        assert tick is not None
        dealt_with = [run.fire_at for run in runs]
        assert dealt_with.count(tick) == (1 if tick > self.seen_at else 0)

    def _nothing_older_was_begun(self, runs: list[Run]) -> None:
        assert self.seen_at is not None
        fired = [run.fire_at for run in sorted(runs, key=lambda run: run.id)]
        assert fired == sorted(set(fired))
        assert not fired or fired[0] > self.seen_at


@pytest.mark.contract("L23")
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(DEEDS, min_size=5, max_size=30))
async def test_whatever_happens_each_tick_runs_once_and_the_newest_is_never_forgotten(
    core_access: Access, open_core: Database, deeds: list[tuple[str, int]]
) -> None:
    async with connected(core_access.owner_dsn) as owner:
        await owner.execute(EMPTY)
    story = Story(open_core)
    for deed, which in deeds:
        await story.happens(deed, which)
