"""Texts that are slow to read keep nobody else waiting, and cost their own token its time."""

import asyncio
import signal
import time
from collections.abc import Sequence

import httpx2
import pytest

from butlers.interfaces.http_server import FINISH_SECONDS
from interfaces.daemons import Daemon, up
from interfaces.forked import with_defaults
from interfaces.furnished import furnished_home
from interfaces.http.callers import ApiCaller, calling

LIMITER = "butlers.interfaces.http.request_limits:RequestLimiter.__init__"
SECOND, ENDS_WITHIN = 1.0, FINISH_SECONDS + 10
MEMORY = "/api/butlers/general/memory"
UNITS = ("a1 ", "password: ", "ignore all previous ", "字é ", "aGVsbG8gd29ybGQ=", " \n")


def batch(unit: str, texts: int, characters: int) -> dict[str, object]:
    one = (unit * characters)[:characters]
    rules = [{"memory_type": "rule", "content": f"{place} {one}"} for place in range(texts)]
    return {"memories": rules}


async def attack(caller: ApiCaller) -> list[int]:
    """Send hostile bodies at once: 0.8 MB and 3 MB of long texts, and a megabyte four times."""
    episodes = [{"content": f"x {(unit * 900_000)[:900_000]} x"} for unit in UNITS[:4]]
    sent = [
        caller.send("POST", f"{MEMORY}/memories/batch", json=batch(UNITS[0], 40, 19_500)),
        caller.send("POST", f"{MEMORY}/memories/batch", json=batch(UNITS[2], 150, 19_500)),
        *(caller.send("POST", f"{MEMORY}/episodes", json=one) for one in episodes),
        *(
            caller.send("POST", f"{MEMORY}/rules", json={"content": (unit * 19_000)[:19_000]})
            for unit in UNITS * 3
        ),
    ]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    return [one.status_code for one in answers if isinstance(one, httpx2.Response)]


async def send_deep(caller: ApiCaller) -> set[int]:
    """Send JSON that is nested half a million times."""
    deep = {"content": b'{"content": ' + b"[" * 500_000, "headers": {"Content-Type": "text/json"}}
    paths = (f"{MEMORY}/facts", "/butlers/general/hooks/UserPromptSubmit", "/butlers/general/mcp")
    return {(await caller.send("POST", path, **deep)).status_code for path in paths}


async def looked(daemon: Daemon, attacking: asyncio.Task[list[int]], most: float) -> list[float]:
    """How long `/health` took, again and again while the attack goes on."""
    took, ends = list[float](), time.monotonic() + most
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as http:
        while time.monotonic() < ends and not attacking.done():
            began = time.monotonic()
            assert (await http.get(f"{daemon.url}/health")).status_code == 200
            took.append(time.monotonic() - began)
            await asyncio.sleep(0.1)
    return took


def slow(took: Sequence[float]) -> list[float]:
    return [seconds for seconds in took if seconds > SECOND]


@pytest.mark.slow
@pytest.mark.contract("L41")
async def test_health_and_a_stop_are_answered_while_hostile_texts_are_read() -> None:
    with furnished_home("general") as home:
        home.create_butler("general")
        with up(home) as daemon:
            async with calling(daemon, "hostile") as hostile, calling(daemon, "quiet") as quiet:
                attacking = asyncio.create_task(attack(hostile))
                await asyncio.sleep(0.3)
                looking = asyncio.create_task(looked(daemon, attacking, 6))
                fact = {"subject": "Ann", "predicate": "likes", "content": "tea"}
                refused = await send_deep(quiet)
                stored = await asyncio.wait_for(quiet.post("/facts", fact), 20)
                took = await looking
                began = time.monotonic()
                await asyncio.to_thread(daemon.stop, signal.SIGTERM)
                stopped = time.monotonic() - began
                await attacking
    assert stored["id"]
    assert len(took) >= 5 and len(slow(took)) <= 1, took  # one hiccup of a busy machine
    assert stopped < ENDS_WITHIN
    assert all(400 <= status < 500 for status in refused), refused


@pytest.mark.slow
async def test_a_token_that_took_its_processor_time_is_told_what_to_do() -> None:
    limits = with_defaults({LIMITER: {"seconds_per_minute": 2.0}})
    with furnished_home("general") as home:
        home.create_butler("general")
        with up(home, environment=limits) as daemon:
            async with calling(daemon, "eager") as eager, calling(daemon, "other") as other:
                for place in range(60):
                    body = batch(UNITS[place % 6], 5, 19_000)
                    refused = await eager.send("POST", f"{MEMORY}/memories/batch", json=body)
                    if refused.status_code == 429:
                        break
                assert refused.status_code == 429
                assert 1 <= int(refused.headers["retry-after"]) <= 600
                assert "processor time" in refused.json()["error"]["message"]
                assert (await other.send("GET", "/api/butlers")).status_code == 200
                async with httpx2.AsyncClient(trust_env=False) as http:
                    told = (await http.get(f"{daemon.url}/metrics")).text
    assert 'butlers_refused_requests_total{limit="time"}' in told
    spent = next(line for line in told.splitlines() if line.startswith("butlers_processing_sec"))
    assert float(spent.split()[-1]) > 2.0
