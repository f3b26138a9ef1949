"""Count uses after the answer, so that reading never waits for a write."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import structlog

from butlers.db.postgres import Database, Transaction
from butlers.errors import ButlersError
from butlers.memory.model import MemoryRef
from butlers.memory.store import search

Work = Callable[[Transaction], Awaitable[object]]

_log = structlog.get_logger(__name__)
_COLUMNS = ("types", "ids", "times", "moments")
# A writer that takes longer waits for a lock; reading goes on without its counts.
_PATIENCE_SECONDS, _SHUTDOWN_SECONDS = 2.0, 10.0


@dataclass(frozen=True, slots=True)
class _Used:
    times: int
    at: datetime


class Uses:
    """Uses that wait to be written, in batches by tenant, and other writes that follow a read.

    A crash may lose the last ones, and a disk that cannot be written loses all.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._waiting: dict[str, dict[MemoryRef, _Used]] = {}
        self._works: dict[str, dict[str, Work]] = {}
        self.writers: dict[str, asyncio.Task[None]] = {}

    def count(self, tenant_id: str, refs: Iterable[MemoryRef], now: datetime) -> None:
        """Count a use of each of these memories; written soon, together with later ones."""
        waiting = self._waiting.setdefault(tenant_id, {})
        for ref in refs:
            before = waiting.get(ref)
            waiting[ref] = _Used(before.times + 1 if before else 1, now)
        if waiting:
            self._begin(tenant_id)

    def later(self, tenant_id: str, name: str, work: Work) -> None:
        """Run other work in a transaction soon; once, if asked for twice until then."""
        self._works.setdefault(tenant_id, {})[name] = work
        self._begin(tenant_id)

    async def settle(self, tenant_id: str, patience: float = _PATIENCE_SECONDS) -> None:
        """Wait until a tenant's uses are written, so that the next reader sees them."""
        writer = self.writers.get(tenant_id)
        if writer and _runs_here(writer) and writer is not asyncio.current_task():
            await asyncio.wait([writer], timeout=patience)

    async def settle_all(self) -> None:
        """Wait for every tenant's uses, as long as a shutdown may take."""
        for tenant_id in list(self.writers):
            await self.settle(tenant_id, _SHUTDOWN_SECONDS)

    def _begin(self, tenant_id: str) -> None:
        writer = self.writers.get(tenant_id)
        if writer is None or not _runs_here(writer):
            self.writers[tenant_id] = asyncio.create_task(self._write(tenant_id))

    async def _write(self, tenant_id: str) -> None:
        try:
            while (waiting := self._waiting.pop(tenant_id, {})) or self._works.get(tenant_id):
                if waiting:
                    rows = [(ref.type, ref.id, use.times, use.at) for ref, use in waiting.items()]
                    counted = dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
                    async with self.database.transaction(tenant_id, replicas_wait=False) as tx:
                        await search.count_uses(tx, **counted)
                for work in self._works.pop(tenant_id, {}).values():
                    async with self.database.transaction(tenant_id, replicas_wait=False) as tx:
                        await work(tx)
        except ButlersError as error:
            _log.warning("uses_not_counted", tenant=tenant_id, error=str(error))
        finally:
            self.writers.pop(tenant_id, None)


def _runs_here(writer: asyncio.Task[None]) -> bool:
    """Whether a task belongs to the running event loop, not to one that has ended."""
    return writer.get_loop() is asyncio.get_running_loop()
