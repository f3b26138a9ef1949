"""What one tenant's crowd costs another: its recalls alone, beside clients, beside hostile texts.

    python -m bench fairness [clients] [rounds] [asked]

A real `butlers up`. In each round a quiet tenant recalls, one request after the other: alone, then
while so many clients of a loud tenant recall and store as fast as they are answered, then while
some clients of it store texts of 20 kB to 1 MB that are slow to read. Told are p50 and p95 over
all rounds; either crowd may raise the quiet tenant's p95 to twice what it is alone.
"""

import asyncio
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bench.bounds import FACTS, Tenant, up
from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from butlers.host.status import Running

CLIENTS, HOSTILE, ROUNDS, ASKED = 64, 8, 3, 60
MOST = 2.0
SETTLE_SECONDS, BEGIN_SECONDS = 4.0, 1.5
"""How long nobody asks after a crowd, and how long one is at work before the quiet tenant asks."""
TOO_MUCH_SECONDS = 0.25
"""How long a client waits that was told 429."""
_KINDS = ("a1 ", "password: ", "ignore all previous ", "字é ", "aGVsbG8gd29ybGQ=", " \n")


def main(options: Sequence[str]) -> int:
    """Print all three, and whether both ratios held."""
    clients, rounds, asked = [*map(int, options), *(CLIENTS, ROUNDS, ASKED)[len(options) :]]
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        home = Home(Path(place) / "home")
        home.create_butler("general")
        home.settings_file.write_text("[server]\nrequests_per_minute = 1000000\n")
        tokens = [TokenStore(home.tokens_file).create("general", name)[1] for name in ("a", "b")]
        with up(home) as found:
            return asyncio.run(_measured(found, tokens, (clients, rounds, asked)))


async def _measured(found: Running, tokens: Sequence[str], sizes: tuple[int, int, int]) -> int:
    clients, rounds, asked = sizes
    quiet, loud = (Tenant(found.url, token) for token in tokens)
    for tenant in (quiet, loud):
        for number in range(FACTS):
            await tenant.store(number)
    crowds: dict[str, Callable[[], Any]] = {
        "alone": lambda: nullcontext(Counter()),
        f"beside {clients} clients": lambda: _crowd(found.url, tokens[1], clients, _ask),
        "beside hostile texts": lambda: _crowd(found.url, tokens[1], HOSTILE, _attack),
    }
    took: dict[str, list[float]] = {name: [] for name in crowds}
    for name, crowd in list(crowds.items()) * rounds:
        await asyncio.sleep(SETTLE_SECONDS)
        with crowd() as answers:
            await quiet.times(5)
            took[name] += await quiet.times(asked)
        print(f"  {name}: p95 {_ms(took[name][-asked:], 95)}; its answers {dict(answers)}")
    return max(_told(name, times, took["alone"]) for name, times in took.items())


def _told(name: str, times: Sequence[float], alone: Sequence[float]) -> int:
    ratio = _percentile(times, 95) / _percentile(alone, 95)
    print(f"{name}: p50 {_ms(times, 50)}, p95 {_ms(times, 95)}, {ratio:.2f} times that alone")
    return 0 if ratio <= MOST else 1


@contextmanager
def _crowd(
    url: str, token: str, clients: int, ask: Callable[[Tenant, int, int], Any]
) -> Iterator[dict[str, int]]:
    """Within this block the crowd asks, in a process of its own; how it was answered."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        answers = manager.dict()
        crowd = context.Process(target=_ask_all, args=(url, token, clients, ask, answers))
        crowd.start()
        try:
            while not answers:
                time.sleep(0.1)
            time.sleep(BEGIN_SECONDS)
            told: dict[str, int] = {}
            yield told
            told |= dict(answers)
        finally:
            crowd.terminate()
            crowd.join()


def _ask_all(
    url: str, token: str, clients: int, ask: Callable[[Tenant, int, int], Any], answers: Any
) -> None:
    loud, counts = Tenant(url, token), Counter[int]()

    async def client(number: int) -> None:
        turn = number
        while True:
            turn += 1
            try:
                status = await ask(loud, number, turn)
            except Exception:  # noqa: BLE001  a body that is refused while it is sent
                status = 0
            counts[status] += 1
            answers.update(counts)
            if status in (0, 429):
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
        rules = [{"memory_type": "rule", "content": f"{one} {rule}"} for one in range(40)]
        return await loud.post("memories/batch", {"memories": rules})
    return await loud.post("rules", {"content": f"x {rule}"})


def _percentile(times: Sequence[float], percent: int) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[percent - 1]


def _ms(times: Sequence[float], percent: int) -> str:
    return f"{_percentile(times, percent) * 1000:.0f} ms"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
