"""A home on two servers of its own: the one that takes writes dies, and the home goes on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import httpx2
import pytest

from db.clusters import PASSWORD, Server, servers
from db.databases import connected
from interfaces.daemons import Daemon, butlers, temporary_home, up
from interfaces.http.callers import ApiCaller, calling

WRITERS = 8
UP_AGAIN_SECONDS = 10.0


@dataclass
class Written:
    """What writers were told."""

    acknowledged: list[str] = field(default_factory=list)
    refused: list[httpx2.Response] = field(default_factory=list)
    stopping: bool = False

    async def write(self, caller: ApiCaller, number: int) -> None:
        path, done = f"/api/butlers/{caller.butler}/memory/facts", 0
        while not self.stopping:
            content = f"writer {number} says {done}"
            fact = {"subject": f"writer {number}", "predicate": f"says {done}", "content": content}
            answer = await caller.send("POST", path, json=fact)
            done += 1
            if answer.is_success:
                self.acknowledged.append(content)
            else:
                self.refused.append(answer)


async def recalled(caller: ApiCaller) -> bool:
    answer = await caller.send(
        "POST", f"/api/butlers/{caller.butler}/memory/recall", json={"topic": "writer 0 says"}
    )
    return answer.is_success and bool(answer.json())


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Server, Server]]:
    """A primary and its standby, which has whatever the primary acknowledges."""
    with servers() as known:
        primary = await asyncio.to_thread(known.primary)
        standby = await asyncio.to_thread(known.standby, primary)
        async with connected(primary.dsn()) as owner:
            await owner.execute("alter system set synchronous_standby_names = '*'")
            await owner.execute("select pg_reload_conf()")
        yield primary, standby


@pytest.fixture
def daemon(pair: tuple[Server, Server]) -> Iterator[Daemon]:
    primary, standby = pair
    with temporary_home() as home:
        home.create_butler("general")
        home.settings_file.write_text(
            "[server]\nrequests_per_minute = 100000\n[database]\ntenant_at_once = 8\n"
            f'url = "postgresql://postgres:{PASSWORD}@{primary.host},{standby.host}"\n'
            f'replica_urls = ["{standby.dsn()}", "{primary.dsn()}"]\n'
        )
        with up(home) as running:
            yield running


@pytest.mark.slow
@pytest.mark.contract("N4.4")
async def test_a_primary_that_dies_under_eight_writers_loses_nothing_that_was_acknowledged(
    pair: tuple[Server, Server], daemon: Daemon
) -> None:
    primary, standby = pair
    async with calling(daemon, "default") as caller:
        written = Written()
        writing = [asyncio.create_task(written.write(caller, n)) for n in range(WRITERS)]
        while len(written.acknowledged) < 60 or not await recalled(caller):
            await asyncio.sleep(0.05)
        await asyncio.to_thread(primary.kill)
        before = len(written.acknowledged)
        await asyncio.to_thread(standby.promote)
        async with asyncio.timeout(UP_AGAIN_SECONDS):
            while not await recalled(caller) or len(written.acknowledged) < before + 20:
                await asyncio.sleep(0.05)
        written.stopping = True
        await asyncio.gather(*writing)
    async with connected(standby.dsn("butler_general")) as owner:
        kept = [row["content"] for row in await owner.fetch("select content from facts")]
    assert set(written.acknowledged) <= set(kept)
    assert len(kept) == len(set(kept)), "nothing was done twice"
    for answer in written.refused:
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5"), answer.text
    goes_on(daemon)


def goes_on(daemon: Daemon) -> None:
    """Health, jobs and upkeep are those of a home to which nothing happened."""
    assert daemon.health() == 200
    ran = butlers("jobs", "run", "decay_sweep", "--home", daemon.home.root)
    assert ran.returncode == 0, ran.stderr
    told = butlers("doctor", "--home", daemon.home.root)
    assert told.returncode == 0, told.stdout
