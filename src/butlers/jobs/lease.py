"""Holding a run while its job is done, so that everybody sees that it goes on."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import structlog

from butlers.clock import Clock
from butlers.db.postgres import Database
from butlers.errors import Conflict, Unavailable
from butlers.jobs import runs as jobs
from butlers.jobs.runs import Claim, Hold

LOST = "its lease was lost: another process took it over, or the database was away too long"

log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lessee:
    """Who holds runs, in which database and for how long at a time."""

    database: Database
    worker: str
    clock: Clock
    seconds: float

    def hold(self, now: datetime) -> Hold:
        """A run is ours from now on."""
        return Hold(self.worker, now, now + timedelta(seconds=self.seconds))

    async def while_held(self, claim: Claim, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """What the work came to, its lease renewed meanwhile; a lost lease ends it."""
        working = asyncio.ensure_future(work())
        keeping = asyncio.ensure_future(self._keep(claim))
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            keeping.result()
            raise Conflict(LOST)
        finally:
            working.cancel()
            keeping.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)

    async def _keep(self, claim: Claim) -> None:
        """Renew until the run is lost, or lapses because the database stays away."""
        held_at = time.monotonic()
        while time.monotonic() - held_at < self.seconds:
            await asyncio.sleep(self.seconds / 3)
            asked_at = time.monotonic()
            try:
                if not await self._renew(claim):
                    return
            except Unavailable as error:
                log.warning("a lease was not renewed", job=claim.job, error=str(error))
            else:
                held_at = asked_at

    async def _renew(self, claim: Claim) -> bool:
        async with self.database.system_transaction() as tx:
            return await jobs.renew(tx, claim, self.hold(self.clock()).lease_until)
