"""Who may call, for how long, and whose turn it is."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from butlers.kernel import throttle
from butlers.kernel.throttle import (
    ACCOUNT,
    Account,
    ConcurrencyLimiter,
    FairQueue,
    RateLimiter,
    metered,
)

pytestmark = pytest.mark.contract("N4.3")


def test_time_is_spent_beyond_what_is_left_and_comes_back() -> None:
    times = RateLimiter(60.0)
    times.spend("a", 70.0, now=0.0)
    assert times.wait("a", now=0.0) == pytest.approx(10.0)
    assert times.wait("a", now=10.0) == 0.0
    assert times.wait("b", now=0.0) == 0.0


def test_an_idle_minute_saves_no_more_than_a_minute() -> None:
    times = RateLimiter(60.0)
    times.spend("a", 1.0, now=0.0)
    times.spend("a", 61.0, now=600.0)
    assert times.wait("a", now=600.0) == pytest.approx(1.0)


async def work(queue: FairQueue, tenant: str, seconds: float, order: list[str]) -> None:
    ACCOUNT.set(Account(tenant))
    async with queue.turn():
        order.append(tenant)
        await asyncio.sleep(seconds)


async def test_whoever_comes_later_waits_for_one_turn_of_a_crowd() -> None:
    queue, order = FairQueue(), list[str]()
    crowd = [asyncio.create_task(work(queue, "loud", 0.005, order)) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.create_task(work(queue, "quiet", 0.001, order))
    assert order[:2] == ["loud", "quiet"]
    await asyncio.gather(*crowd)


async def test_tenants_share_by_time_and_not_by_turns() -> None:
    queue, order = FairQueue(), list[str]()
    long = [work(queue, "long", 0.04, order) for _ in range(10)]
    short = [work(queue, "short", 0.01, order) for _ in range(40)]
    crowd = [asyncio.create_task(one) for one in long + short]
    while len(order) < 25:
        await asyncio.sleep(0.005)
    shares = Counter(order[:25])
    assert shares["short"] > 2 * shares["long"] > 0
    await asyncio.gather(*crowd)


async def test_a_pause_saves_no_turns_up() -> None:
    queue, order = FairQueue(), list[str]()
    for _ in range(5):
        await asyncio.create_task(work(queue, "busy", 0.01, order))
    both = [work(queue, name, 0.005, order) for name in ("busy", "late") * 6]
    await asyncio.gather(*map(asyncio.create_task, both))
    assert Counter(order[5:11]) == {"busy": 3, "late": 3}


async def test_whoever_leaves_while_waiting_takes_no_turn_away() -> None:
    queue, order = FairQueue(), list[str]()
    first, left, last = (asyncio.create_task(work(queue, n, 0.01, order)) for n in "abc")
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(first, last)
    await asyncio.wait_for(asyncio.create_task(work(queue, "d", 0, order)), 1)
    assert order == ["a", "c", "d"]


async def test_a_turn_is_passed_on_by_whoever_leaves_as_it_comes() -> None:
    queue, order = FairQueue(), list[str]()
    first = asyncio.create_task(work(queue, "a", 0, order))
    left, last = (asyncio.create_task(work(queue, name, 0, order)) for name in "bc")
    first.add_done_callback(lambda _: left.cancel())
    await asyncio.gather(first, last)
    assert "c" in order


async def test_the_account_is_charged_for_its_turns_and_its_own_steps() -> None:
    charged: list[float] = []
    ACCOUNT.set(Account("a", charged.append))

    async def steps() -> str:
        sum(range(300_000))
        await asyncio.sleep(0.2)
        sum(range(300_000))
        return "done"

    assert await metered(steps()) == "done"
    assert 0.001 < sum(charged) < 0.15  # the wait costs nothing
    charged.clear()
    async with FairQueue().turn():
        await asyncio.sleep(0.02)
    assert sum(charged) >= 0.02


async def test_metered_work_is_cancelled_and_fails_as_usual() -> None:
    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError("x")

    with pytest.raises(KeyError):
        await metered(failing())
    ended = list[str]()

    async def waiting() -> None:
        try:
            await asyncio.sleep(9)
        finally:
            ended.append("cleaned up")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await metered(waiting())
    assert ended == ["cleaned up"]


class Calls:
    """Calls that go on until they are let go, and how many of each tenant run."""

    def __init__(self) -> None:
        self.limiter, self.running = ConcurrencyLimiter(), Counter[str]()
        self.go = asyncio.Event()

    async def call(self, tenant: str, kind: Any = True) -> None:
        async with self.limiter.of(tenant, kind):
            self.running[tenant] += 1
            await self.go.wait()
            self.running[tenant] -= 1


async def test_a_tenant_alone_has_two_calls_and_beside_others_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls()
    tasks = [asyncio.create_task(calls.call("a")) for _ in range(5)]
    await asyncio.sleep(0.01)
    assert calls.running == {"a": 2}
    tasks += [asyncio.create_task(calls.call(name)) for name in "bcbc"]
    await asyncio.sleep(0.01)
    assert (calls.running["b"], calls.running["c"]) == (1, 1)
    tasks += [asyncio.create_task(calls.call("a", kind=False))]
    await asyncio.sleep(0.01)
    assert calls.running["a"] == 3, "writes wait for no reads"
    monkeypatch.setattr(throttle, "_SHARING_SECONDS", 0.0)
    calls.go.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 1)
    assert not calls.limiter._known


async def test_a_call_that_is_given_up_frees_its_place() -> None:
    calls = Calls()
    tasks = [asyncio.create_task(calls.call("a")) for _ in range(4)]
    await asyncio.sleep(0.01)
    tasks[0].cancel()
    tasks[3].cancel()
    await asyncio.sleep(0.01)
    assert not tasks[2].done()
    calls.go.set()
    await asyncio.gather(*tasks[1:3])
    assert not calls.limiter._known
