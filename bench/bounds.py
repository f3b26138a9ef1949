"""What a crowd costs those beside it: one tenant's requests alone, and beside another's.

    python -m bench bounds [clients] [slow]

A real `butlers up`. A quiet tenant recalls, one request after the other; then so many clients of
a loud tenant recall and store at once, as fast as they are answered, while so many connections
each send half a request and hold on. The quiet tenant's p99 may rise to three times what it was.
"""

import asyncio
import multiprocessing
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from butlers.host.status import Running, running

CLIENTS, SLOW = 64, 1_000
MOST = 3.0
FACTS, ASKED = 200, 200
START_SECONDS = 120.0


def main(options: Sequence[str]) -> int:
    """Print both, and whether the ratio held."""
    clients, slow = (int(given) for given in [*options, CLIENTS, SLOW][:2])
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        home = Home(Path(place) / "home")
        home.create_butler("general")
        with up(home) as found:
            return asyncio.run(_measured(home, found, clients, slow))


@contextmanager
def up(home: Home) -> Iterator[Running]:
    """Within this block a home is up, in a process of its own."""
    home.root.parent.chmod(0o755)
    command = [sys.executable, "-m", "butlers", "up", "--home", str(home.root), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield _ready(home)
    finally:
        process.terminate()
        process.wait()


def _ready(home: Home) -> Running:
    deadline = time.monotonic() + START_SECONDS
    while (found := running(home)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError("the butlers did not start")
        time.sleep(0.1)
    return found


class Tenant:
    """One tenant's way to the API."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/api/butlers/general/memory"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx2.AsyncClient(
            trust_env=False, timeout=120, limits=httpx2.Limits(max_connections=200)
        )

    async def store(self, number: int) -> int:
        fact = {"subject": f"person {number}", "predicate": "likes", "content": f"tea no {number}"}
        return await self.post("facts", fact)

    async def recall(self, number: int) -> int:
        return await self.post("recall", {"topic": f"what does person {number} like?"})

    async def post(self, path: str, body: dict[str, Any]) -> int:
        answer = await self._http.post(f"{self._url}/{path}", json=body, headers=self._headers)
        return answer.status_code

    async def times(self, count: int) -> list[float]:
        """How long each of so many took, one after the other."""
        told = []
        for number in range(count):
            began = time.perf_counter()
            assert await self.recall(number % FACTS) == 200
            told.append(time.perf_counter() - began)
        return told


async def _measured(home: Home, found: Running, clients: int, slow: int) -> int:
    tokens = [TokenStore(home.tokens_file).create("general", name)[1] for name in ("a", "b")]
    quiet, loud = (Tenant(found.url, token) for token in tokens)
    for tenant in (quiet, loud):
        for number in range(FACTS):
            await tenant.store(number)
    await quiet.times(20)
    alone = await quiet.times(ASKED)
    with _crowded(found.url, tokens[1], clients) as answered, _half_sent(found, slow):
        began, before = time.perf_counter(), answered.value
        beside = await quiet.times(ASKED)
        a_second = (answered.value - before) / (time.perf_counter() - began)
    print(f"alone    p50 {_ms(alone, 50)}, p99 {_ms(alone, 99)}")
    print(f"beside   p50 {_ms(beside, 50)}, p99 {_ms(beside, 99)}: {clients} clients with "
          f"{a_second:.0f} answers a second, {slow} half sent")  # fmt: skip
    ratio = _percentile(beside, 99) / _percentile(alone, 99)
    print(f"p99 is {ratio:.1f} times that alone, at most {MOST:g}")
    return 0 if ratio <= MOST else 1


@contextmanager
def _crowded(url: str, token: str, clients: int) -> Iterator[Any]:
    """Within this block the crowd asks, in a process of its own; how often it was answered."""
    context = multiprocessing.get_context("spawn")
    answered = context.Value("q", 0)
    crowd = context.Process(target=_ask_all, args=(url, token, clients, answered))
    crowd.start()
    while answered.value < clients:
        time.sleep(0.1)
    try:
        yield answered
    finally:
        crowd.terminate()
        crowd.join()


def _ask_all(url: str, token: str, clients: int, answered: Any) -> None:
    loud = Tenant(url, token)

    async def ask(number: int) -> None:
        while True:
            asked = loud.store if number % 4 == 0 else loud.recall
            assert await asked(number % FACTS) in (200, 201, 409)
            answered.value += 1
            number += 1

    async def ask_at_once() -> None:
        await asyncio.gather(*(ask(number) for number in range(clients)))

    asyncio.run(ask_at_once())


@contextmanager
def _half_sent(found: Running, count: int) -> Iterator[None]:
    host, _, port = found.url.removeprefix("http://").partition(":")
    head = f"POST /api/butlers/general/memory/facts HTTP/1.1\r\nHost: {host}\r\n".encode()
    held = [socket.create_connection((host, int(port)), timeout=30) for _ in range(count)]
    try:
        for one in held:
            one.sendall(head)
        yield
    finally:
        for one in held:
            one.close()


def _percentile(times: Sequence[float], percent: int) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[percent - 1]


def _ms(times: Sequence[float], percent: int) -> str:
    return f"{_percentile(times, percent) * 1000:.0f} ms"
