"""Holding something in a database while work goes on, so that everybody sees that it goes on."""

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
    """How something is kept that is ours for some seconds at a time.

    `renew` holds it for as long again and says whether it was still ours; `lost` is what a
    Conflict says once it is not.
    """

    what: str
    seconds: float
    renew: Callable[[], Awaitable[bool]]
    lost: str

    async def while_held(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work came to, the lease renewed meanwhile; losing it ends the work."""
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
        """Renew until it is lost, or lapses because the database stays away."""
        held_at = time.monotonic()
        while time.monotonic() - held_at < self.seconds:
            # Early enough that one renewal may fail, and the next still comes in time.
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
    """Within this block the work goes on; it is stopped, and has ended, when the block ends."""
    working = asyncio.create_task(work)
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """What the work comes to; who is cancelled meanwhile still waits until it has ended.

    Letting go must not be cut short, and a thread cannot be stopped.
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
            running.exception()  # looked at, so that nobody complains that it was not
        raise
