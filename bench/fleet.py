"""What a fleet costs: the overview of all butlers at once, against its slowest butler.

    python -m bench fleet [butlers] [facts]

Every butler has a database of its own with this many facts. All are asked at once, and each alone.
Then a remote one that never answers is put beside them: it may cost its time limit and no more.
"""

import asyncio
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncpg

from butlers.dashboard.api.answers import Overview
from butlers.dashboard.api.reading import overview_of
from butlers.dashboard.callers import operator_of
from butlers.dashboard.fanout import Fleet, Question
from butlers.dashboard.seats import take_seat
from butlers.host.daemon import started_butlers
from butlers.host.database_server import DatabaseServer
from butlers.host.fleet_settings import FleetSection, RemoteButler
from butlers.host.home import Home
from butlers.host.logs import configure
from butlers.host.server import Household
from butlers.host.settings_files import load_house
from butlers.host.tokens import TokenStore

BUTLERS, FACTS = 20, 10_000
MOST = 3.0
ROUNDS = 9
LIMIT_SECONDS = 1.0
OVERVIEW = Question(Overview, overview_of, "overview", {})

# Counting reads no vector; rows are as wide as real ones, without the time an index of them takes.
FILL = (
    "drop index facts_embedding",
    """
    insert into embedding_versions (id, tenant_id, model, version, dimensions, created_at)
    values (gen_random_uuid(), 'default', 'none', '1', 384, now())
    """,
    """
    insert into facts (tenant_id, subject, predicate, content, embedding, embedding_version_id,
      search_vector, created_at, last_confirmed_at, validity, metadata)
    select 'default', 'subject ' || n, 'is', text, array_fill(0.05, array[384])::vector,
      (select id from embedding_versions), to_tsvector('english', text), now(), now(),
      case when n % 10 = 0 then 'superseded' else 'active' end,
      case when n % 7 = 0 then '{"status": "fading"}'::jsonb else '{}' end
    from generate_series(1, {facts}) n
    cross join lateral (
      select repeat('what is known about subject ' || n || '. ', 6) as text
    ) written
    """,
    """
    insert into memory_events (id, tenant_id, event_type, created_at, payload)
    select gen_random_uuid(), 'default', 'fact_created', now(), '{}'
    from generate_series(1, {facts})
    """,
    "vacuum analyze",
)


@asynccontextmanager
async def household(butlers: int, facts: int) -> AsyncIterator[Household]:
    """A home of so many butlers, each with so many facts."""
    with tempfile.TemporaryDirectory(prefix="butlers-bench-") as directory:
        Path(directory).chmod(0o755)
        home = Home(Path(directory) / "home")
        for number in range(butlers):
            home.create_butler(f"butler_{number:02}")
        home.root.chmod(0o711)
        house = load_house(home.settings_file, home.butler_files())
        async with started_butlers(home, house) as started:
            for name in started:
                await fill(home, name, facts)
            tokens = TokenStore(home.tokens_file)
            yield Household(home, started, tokens, FleetSection(timeout_seconds=30.0))


async def fill(home: Home, name: str, facts: int) -> None:
    """Give a butler its facts, and the server its statistics."""
    connection = await asyncpg.connect(DatabaseServer(home).running_url(name))
    try:
        for statement in FILL:
            await connection.execute(statement.replace("{facts}", str(facts)))
    finally:
        await connection.close()


async def median_seconds(work: Callable[[], Awaitable[object]]) -> float:
    """How long it usually takes, once it is warm."""
    await work()
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


async def alone(house: Household, name: str) -> None:
    """One butler, asked as the fleet asks it."""
    await overview_of(take_seat(house, operator_of(house), name, "bench"))


async def together(house: Household, fleet: Fleet, down: int = 0) -> float:
    """Every butler at once; the longest any of them took by its own watch."""
    took: list[float] = []

    async def timed(seat: object) -> object:
        started = time.perf_counter()
        said = await overview_of(seat)  # type: ignore[arg-type]
        took.append(time.perf_counter() - started)
        return said

    replies = await fleet.ask(operator_of(house), "bench", replace(OVERVIEW, here=timed))
    assert sum(reply.said is None for reply in replies) == down, replies
    return max(took)


async def with_a_dead_remote(house: Household) -> float:
    """How long the fleet takes beside a butler that takes calls and never answers."""
    os.environ["BENCH_TOKEN"] = "x"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/api/butlers/silent"
        remote = RemoteButler(name="silent", url=url, token_env="BENCH_TOKEN")
        section = FleetSection(remotes=(remote,), timeout_seconds=LIMIT_SECONDS)
        beside = replace(house, fleet=section)
        fleet = Fleet(beside)
        async with fleet.open():
            started = time.perf_counter()
            await together(beside, fleet, down=1)
            return time.perf_counter() - started


async def measure(butlers: int, facts: int) -> bool:
    """Whether every ratio held."""
    async with household(butlers, facts) as house:
        each = [
            await median_seconds(lambda name=name: alone(house, name)) for name in house.butlers
        ]
        slowest_alone = max(each)
        slowest: list[float] = []
        everybody = Fleet(house)

        async def ask() -> None:
            slowest.append(await together(house, everybody))

        fleet = await median_seconds(ask)
        in_fleet = statistics.median(slowest)
        dead = await with_a_dead_remote(house)
    print(f"{butlers} butlers of {facts} facts")
    print(f"slowest butler asked alone  {slowest_alone * 1000:8.1f} ms")
    print(f"slowest butler in the fleet {in_fleet * 1000:8.1f} ms")
    print(
        f"the whole fleet             {fleet * 1000:8.1f} ms  {fleet / in_fleet:.2f}x (at most 3)"
    )
    print(f"all butlers one by one      {sum(each) * 1000:8.1f} ms")
    print(f"beside a silent remote      {dead:8.2f} s, whose time limit is {LIMIT_SECONDS:g} s")
    return fleet <= MOST * in_fleet and dead < LIMIT_SECONDS + MOST * max(fleet, 0.1)


def main(options: list[str]) -> int:
    """Run it; 1 when a ratio did not hold."""
    butlers = int(options[0]) if options else BUTLERS
    facts = int(options[1]) if len(options) > 1 else FACTS
    configure("warning")
    return 0 if asyncio.run(measure(butlers, facts)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
