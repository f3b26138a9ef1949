"""What a fleet costs: the page of all butlers against the page of the slowest of them.

    python -m bench fleet [butlers] [facts]

A real `butlers up` over a home of so many butlers, each with a database of so many facts, asked
over HTTP as a browser asks it. Pages are asked in turn, so that whatever else the machine does
falls on all of them. The fleet is asked twice over: when nothing happened since the last look,
and when something happened at every butler. Then a remote one that takes calls and never answers
is put beside them: it may cost its time limit and no more.
"""

import asyncio
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import httpx2

from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.interfaces.daemon import started_butlers
from butlers.logs import configure
from butlers.settings.files import load_house

BUTLERS, FACTS = 20, 10_000
MOST = 3.0
ROUNDS = 15
LIMIT_SECONDS = 1.0
START_SECONDS = 120.0
TOKEN_VARIABLE = "BENCH_TOKEN"
FLEET_PAGE, FLEET_API = "/memory", "/api/memory/overview"

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
HAPPEN = """
insert into memory_events (id, tenant_id, event_type, created_at, payload)
values (gen_random_uuid(), 'default', 'fact_confirmed', now(), '{}')
"""


async def fill(home: Home, names: Sequence[str], facts: int) -> None:
    """Give every butler its facts, and the server its statistics."""
    house = load_house(home.settings_file, home.butler_files())
    async with started_butlers(home, house):
        for name in names:
            for statement in FILL:
                await at_butler(home, name, statement.replace("{facts}", str(facts)))


async def at_butler(home: Home, name: str, statement: str) -> None:
    """Run a statement in a butler's database, as its owner."""
    connection = await asyncpg.connect(DatabaseServer(home).running_url(name))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@contextmanager
def connected(home: Home, names: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Within this block, a call makes something happen at every butler."""
    with asyncio.Runner() as runner:
        urls = [DatabaseServer(home).running_url(name) for name in names]
        connections = [runner.run(asyncpg.connect(url)) for url in urls]

        def happen() -> None:
            for connection in connections:
                runner.run(connection.execute(HAPPEN))

        try:
            yield happen
        finally:
            for connection in connections:
                runner.run(connection.close())


@contextmanager
def browser(home: Home) -> Iterator[httpx2.Client]:
    """Whoever opens the link that `butlers up` prints, while it runs."""
    said = home.root.parent / "said"
    with said.open("w") as out:
        command = [sys.executable, "-m", "butlers", "up", "--home", str(home.root), "--port", "0"]
        daemon = subprocess.Popen(command, stdout=out, env={**os.environ, TOKEN_VARIABLE: "x"})
    try:
        with httpx2.Client(trust_env=False, timeout=60, follow_redirects=True) as http:
            link = httpx2.URL(_printed_link(said, daemon))
            http.base_url = link.copy_with(path="/")
            assert http.get(link).is_success
            yield http
    finally:
        daemon.terminate()
        daemon.wait(30)


def _printed_link(said: Path, daemon: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and daemon.poll() is None:
        found = re.search(r"http\S+/sign-in/once/\S+", said.read_text())
        if found:
            return found.group()
        time.sleep(0.1)
    raise SystemExit("butlers did not come up")


def medians(
    http: httpx2.Client, paths: Sequence[str], before_each: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """How long each page usually takes in milliseconds, asked in turn once all are warm."""
    times: dict[str, list[float]] = {path: [] for path in paths}
    for number in range(ROUNDS + 2):
        for path in paths:
            before_each()
            seconds = asked(http, path)
            if number > 1:
                times[path].append(seconds * 1000)
    return {path: statistics.median(taken) for path, taken in times.items()}


def asked(http: httpx2.Client, path: str) -> float:
    """The seconds one page took."""
    started = time.perf_counter()
    answer = http.get(path)
    seconds = time.perf_counter() - started
    assert answer.status_code == 200, (path, answer)
    return seconds


def report(about: str, took: Mapping[str, float], fleet: str, one: Callable[[str], str],
           names: Sequence[str]) -> float:  # fmt: skip
    """Print what the fleet took and what its slowest butler; how many times as long."""
    slowest = max(took[one(name)] for name in names)
    ratio = took[fleet] / slowest
    print(f"{about:<38} {took[fleet]:7.1f} ms, slowest butler {slowest:6.1f} ms: {ratio:.2f}x")
    return ratio


def butler_page(name: str) -> str:
    """The page of one butler."""
    return f"/butlers/{name}/memory"


def butler_api(name: str) -> str:
    """What the API tells of one butler."""
    return f"/api/butlers/{name}/memory/overview"


def measure(home: Home, names: Sequence[str]) -> bool:
    """Whether every ratio held."""

    pages, answers = [FLEET_PAGE, *map(butler_page, names)], [FLEET_API, *map(butler_api, names)]
    with browser(home) as http:
        quiet = report("the fleet's page", medians(http, pages), FLEET_PAGE, butler_page, names)
        few = [FLEET_PAGE, *map(butler_page, names[:3])]
        with connected(home, names) as something_happens:
            changed = medians(http, few, something_happens)
        report("after a change at every butler", changed, FLEET_PAGE, butler_page, names[:3])
        report("the API's overview", medians(http, answers), FLEET_API, butler_api, names)
    dead = with_a_dead_remote(home)
    print(f"{'beside a silent remote':<38} {dead:7.2f} s, whose time limit is {LIMIT_SECONDS:g} s")
    return quiet <= MOST and dead <= LIMIT_SECONDS * 1.5


def with_a_dead_remote(home: Home) -> float:
    """How many seconds the page takes beside a butler that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/api/butlers/silent"
        remote = f'{{ name = "silent", url = "{url}", token_env = "{TOKEN_VARIABLE}" }}'
        home.settings_file.write_text(
            f"[fleet]\ntimeout_seconds = {LIMIT_SECONDS}\nremotes = [{remote}]\n"
        )
        with browser(home) as http:
            return statistics.median(asked(http, FLEET_PAGE) for _ in range(5))


def main(options: list[str]) -> int:
    """Run it; 1 when a ratio did not hold."""
    butlers = int(options[0]) if options else BUTLERS
    facts = int(options[1]) if len(options) > 1 else FACTS
    configure("warning")
    with tempfile.TemporaryDirectory(prefix="butlers-bench-") as directory:
        Path(directory).chmod(0o755)
        home = Home(Path(directory) / "home")
        names = [f"butler_{number:02}" for number in range(butlers)]
        for name in names:
            home.create_butler(name)
        home.root.chmod(0o711)
        asyncio.run(fill(home, names, facts))
        print(f"{butlers} butlers of {facts} facts")
        return 0 if measure(home, names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
