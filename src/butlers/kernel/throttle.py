"""Limit callers: how often and how long they may call, how many calls run at once, who is next.

What is done for a request is charged to its account, wherever it is done.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Hashable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import coroutine
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

_MOST_KNOWN = 10_000
_SHARING_SECONDS = 1.0
"""How long after its last call a tenant is one that others share with."""
T = TypeVar("T")


class RateLimiter:
    """A bucket for each name that fills steadily: of calls, or of seconds of processing."""

    def __init__(self, per_minute: float) -> None:
        self._most = float(per_minute)
        self._per_second = per_minute / 60
        self._known: dict[str, tuple[float, float]] = {}

    def take(self, name: str, now: float) -> float:
        """Take one; return 0.0, or the seconds until there is one."""
        wait = self.wait(name, now, 1.0)
        if not wait:
            self.spend(name, 1.0, now)
        return wait

    def spend(self, name: str, amount: float, now: float) -> None:
        """Take an amount, even more than is left."""
        if len(self._known) >= _MOST_KNOWN:
            self._known = {one: b for one, b in self._known.items() if now - b[1] < 60}
        self._known[name] = (self._left(name, now) - amount, now)

    def wait(self, name: str, now: float, least: float = 0.0) -> float:
        """Return 0.0, or the seconds until so much is left."""
        return max(0.0, (least - self._left(name, now)) / self._per_second)

    def _left(self, name: str, now: float) -> float:
        left, at = self._known.get(name, (self._most, now))
        return min(self._most, left + (now - at) * self._per_second)


@dataclass(frozen=True, slots=True)
class Account:
    """Whom work is done for, and what takes the seconds that it took."""

    tenant: str = ""
    charge: Callable[[float], None] = lambda seconds: None


_NOBODY = Account()
ACCOUNT: ContextVar[Account] = ContextVar("account", default=_NOBODY)
"""The account of the request that runs; work of the butler itself has one of its own."""


@coroutine
def metered(work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Await a coroutine, and charge its account with the processor time of its own steps."""
    charge, step, given = ACCOUNT.get().charge, work.send, cast(Any, None)
    while True:
        began = time.thread_time()
        try:
            waited = step(given)
        except StopIteration as end:
            return cast(T, end.value)
        finally:
            charge(time.thread_time() - began)
        try:
            step, given = work.send, (yield waited)
        except BaseException as error:  # noqa: BLE001  a cancellation goes to the work itself
            step, given = work.throw, error


@dataclass(slots=True)
class _Turns:
    """The turns of one event loop: who waits, and how long each tenant was served."""

    free: int
    waiting: dict[str, deque[asyncio.Future[None]]] = field(default_factory=dict)
    served: dict[str, float] = field(default_factory=dict)
    least: float = 0.0

    async def take(self, tenant: str) -> None:
        if tenant not in self.waiting:
            # Who comes after a pause is not ahead by it, and begins where the others are.
            self.served[tenant] = max(self.served.get(tenant, 0.0), self.least)
        if self.free:
            self.free, self.least = self.free - 1, self.served[tenant]
            return
        turn = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.pass_on()
            raise

    def give(self, tenant: str, seconds: float) -> None:
        self.served[tenant] = self.served.get(tenant, self.least) + seconds
        self.pass_on()

    def pass_on(self) -> None:
        """Give the turn to the tenant that was served the least time, if any waits."""
        while self.waiting:
            tenant = min(self.waiting, key=lambda name: self.served.get(name, 0.0))
            turn = self.waiting[tenant].popleft()
            if not self.waiting[tenant]:
                del self.waiting[tenant]
            if not turn.done():
                self.least = self.served.get(tenant, self.least)
                turn.set_result(None)
                return
        self.free += 1
        if len(self.served) > _MOST_KNOWN:
            self.served.clear()


class FairQueue:
    """Serves a few at a time, each time the tenant that was served the least time so far."""

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn of the account's tenant; charge the account with the block's time."""
        account, loop = ACCOUNT.get(), asyncio.get_running_loop()
        turns = self._loops.setdefault(loop, _Turns(self._at_once))
        await turns.take(account.tenant)
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            account.charge(seconds)
            turns.give(account.tenant, seconds)


@dataclass(slots=True)
class _Slots:
    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class ConcurrencyLimiter:
    """Two slots for each kind of call of a tenant, one while another tenant calls too."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Slots] = {}
        self._newest, self._other = ("", 0.0), ("", 0.0)

    @asynccontextmanager
    async def of(self, tenant: str, kind: Hashable) -> AsyncIterator[None]:
        """Hold a slot of a kind for the block; wait until one is free."""
        slots = self._known.setdefault((tenant, kind), _Slots())
        self._note(tenant)
        turn = asyncio.get_running_loop().create_future()
        slots.waiting.append(turn)
        self._admit(slots)
        try:
            await turn
            self._note(tenant)
            yield
        finally:
            if turn.done() and not turn.cancelled():
                slots.running -= 1
            self._admit(slots)
            if not slots.running and not slots.waiting:
                self._known.pop((tenant, kind), None)

    def _note(self, tenant: str) -> None:
        if tenant != self._newest[0]:
            self._other = self._newest
        self._newest = (tenant, time.monotonic())

    def _admit(self, slots: _Slots) -> None:
        is_shared = self._other[0] != "" and time.monotonic() - self._other[1] < _SHARING_SECONDS
        while slots.waiting and slots.running < (1 if is_shared else 2):
            turn = slots.waiting.popleft()
            if not turn.done():
                slots.running += 1
                turn.set_result(None)
