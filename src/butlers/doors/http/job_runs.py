"""Jobs that a caller asked for: waited for a moment, then left to run on."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from butlers.jobs.runs import Run

WAIT_SECONDS = 5.0


class JobRuns:
    """The runs begun by callers of this process."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Run]] = set()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Runs begun within this block end with it."""
        try:
            yield
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def begin(
        self, run: Coroutine[Any, Any, Run], wait_seconds: float = WAIT_SECONDS
    ) -> Run | None:
        """The run once it has ended; None while it goes on. What kept it from starting raises."""
        task = asyncio.create_task(run)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        done, _ = await asyncio.wait({task}, timeout=wait_seconds)
        return task.result() if done else None
