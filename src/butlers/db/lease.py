"""Renew a lease in the database while work goes on, and wait for work that must not be cut."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from butlers.errors import Conflict, Unavailable

log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Renewal:
    """How to keep a lease of some seconds.

    `renew` extends it and returns whether it was still ours; `lost` is the message of the Conflict
    where it was not.
    """

    what: str
    seconds: float
    renew: Callable[[], Awaitable[bool]]
    lost: str

    async def while_held(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the work; cancel it and raise Conflict when the lease is lost."""
        working = asyncio.ensure_future(work)
        keeping = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            keeping.result()
            raise Conflict(self.lost)
        finally:
            working.cancel()
            keeping.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)

    async def _keep(self) -> None:
        """Renew until the lease is lost, or expires because the database stays away."""
        held_at = time.monotonic()
        while time.monotonic() - held_at < self.seconds:
            # Early enough that one renewal may fail.
            await asyncio.sleep(self.seconds / 3)
            asked_at = time.monotonic()
            try:
                if not await self.renew():
                    return
            except Unavailable as error:
                log.warning("a lease was not renewed", what=self.what, error=str(error))
            else:
                held_at = asked_at


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run the work during this block; cancel it and wait for its end when the block ends."""
    working = asyncio.create_task(work)
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work; when cancelled, still wait until the work has ended.

    For releases, which must not be cut short, and threads, which cannot be stopped.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            running.exception()  # retrieved, so that asyncio does not log it
        raise
