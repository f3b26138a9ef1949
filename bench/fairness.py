"""What one tenant's crowd costs another: its recalls alone, beside clients, beside hostile texts.

    python -m bench fairness [clients] [rounds] [asked]

A real `butlers up`. In each of many short rounds a quiet tenant recalls, one request after the
other: alone, then while so many clients of another tenant recall and store as fast as they are
answered, then while some clients of a third store texts of 20 kB to 1 MB that are slow to read.
Told are p50 and p95 over all rounds, so that what else the machine does affects all alike; either
crowd may raise the quiet tenant's p95 to twice what it is alone.
"""

import asyncio
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.bounds import FACTS, Tenant, up
from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from butlers.host.status import Running

CLIENTS, HOSTILE, ROUNDS, ASKED = 64, 8, 12, 15
MOST = 2.0
BEGIN_SECONDS = 0.5
"""How long a crowd is at work before the quiet tenant asks."""
DRAIN_SECONDS = 120.0
TOO_MUCH_SECONDS = 0.25
"""How long a client waits that was told 429."""
_KINDS = ("a1 ", "password: ", "ignore all previous ", "字é ", "aGVsbG8gd29ybGQ=", " \n")
Ask = Callable[[Tenant, int, int], Any]


def main(options: Sequence[str]) -> int:
    """Print all three, and whether both ratios held."""
    clients, rounds, asked = [*map(int, options), *(CLIENTS, ROUNDS, ASKED)[len(options) :]]
    with tempfile.TemporaryDirectory(prefix="bench-") as place, ExitStack() as stack:
        home = Home(Path(place) / "home")
        home.create_butler("general")
        tokens = [TokenStore(home.tokens_file).create("general", n)[1] for n in ("a", "b", "c")]
        found = stack.enter_context(up(home))
        crowds = {
            f"beside {clients} clients": Crowd(found.url, tokens[1], clients, _ask),
            "beside hostile texts": Crowd(found.url, tokens[2], HOSTILE, _attack),
        }
        for crowd in crowds.values():
            stack.enter_context(crowd.started())
        return asyncio.run(_measured(found, tokens, crowds, (rounds, asked)))


async def _measured(
    found: Running, tokens: Sequence[str], crowds: dict[str, "Crowd"], sizes: tuple[int, int]
) -> int:
    rounds, asked = sizes
    quiet, loud = (Tenant(found.url, token) for token in tokens[:2])
    for tenant in (quiet, loud):
        for number in range(FACTS):
            await tenant.store(number)
    took: dict[str, list[float]] = {"alone": [], **{name: [] for name in crowds}}
    for _ in range(rounds):
        await quiet.times(2)
        took["alone"] += await quiet.times(asked)
        for name, crowd in crowds.items():
            with crowd.at_work():
                took[name] += await quiet.times(asked)
    answers = {name: crowd.answered.value for name, crowd in crowds.items()}
    print(f"answers to the crowds: {answers}")
    return max(_told(name, times, took["alone"]) for name, times in took.items())


def _told(name: str, times: Sequence[float], alone: Sequence[float]) -> int:
    half, most = (_percentile(times, p) / _percentile(alone, p) for p in (50, 95))
    told = f"p50 {_ms(times, 50)}, p95 {_ms(times, 95)}"
    print(f"{name}: {told}; {half:.2f} and {most:.2f} times that alone")
    return 0 if most <= MOST else 1


class Crowd:
    """Clients of one tenant in a process of their own, which ask while they are at work."""

    def __init__(self, url: str, token: str, clients: int, ask: Ask) -> None:
        context = multiprocessing.get_context("spawn")
        self.go, self.pending = context.Event(), context.Value("q", 0)
        self.answered = context.Value("q", 0)
        shared = (self.go, self.pending, self.answered)
        self._process = context.Process(target=_ask_all, args=(url, token, clients, ask, *shared))

    @contextmanager
    def started(self) -> Iterator[None]:
        self._process.start()
        try:
            yield
        finally:
            self._process.terminate()
            self._process.join()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Within this block they ask; it ends when all of them were answered."""
        before = self.answered.value
        self.go.set()
        while self.answered.value == before:
            time.sleep(0.05)
        time.sleep(BEGIN_SECONDS)
        try:
            yield
        finally:
            self.go.clear()
            ends = time.monotonic() + DRAIN_SECONDS
            while self.pending.value and time.monotonic() < ends:
                time.sleep(0.05)


def _ask_all(url: str, token: str, clients: int, ask: Ask, *shared: Any) -> None:
    loud, (go, pending, answered) = Tenant(url, token), shared

    async def client(number: int) -> None:
        turn = number
        while True:
            while not go.is_set():
                await asyncio.sleep(0.05)
            turn += 1
            pending.value += 1
            status = await ask(loud, number, turn)
            pending.value -= 1
            answered.value += 1
            if status == 429:
                await asyncio.sleep(TOO_MUCH_SECONDS)

    async def all_at_once() -> None:
        await asyncio.gather(*(client(number) for number in range(clients)))

    asyncio.run(all_at_once())


async def _ask(loud: Tenant, number: int, turn: int) -> int:
    return await (loud.store if number % 4 == 0 else loud.recall)(turn % FACTS)


async def _attack(loud: Tenant, number: int, turn: int) -> int:
    unit = _KINDS[turn % len(_KINDS)]
    long, rule = (unit * 400_000)[:950_000] + str(turn), (unit * 8_000)[:19_000] + str(turn)
    if number == 0:
        return await loud.post("episodes", {"content": f"x {long}"})
    if number == 1:
        rules = [{"memory_type": "rule", "content": f"{one} {rule}"} for one in range(15)]
        return await loud.post("memories/batch", {"memories": rules})
    return await loud.post("rules", {"content": f"x {rule}"})


def _percentile(times: Sequence[float], percent: int) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[percent - 1]


def _ms(times: Sequence[float], percent: int) -> str:
    return f"{_percentile(times, percent) * 1000:.0f} ms"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
