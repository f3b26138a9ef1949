"""A butler asked from the command line: it answers even if its database never starts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from butlers.butler.butler import Butler
from butlers.butler.database import DatabaseServer
from butlers.butler.home import Home
from butlers.memory.handle import Memory
from butlers.sessions.fail_open import forgiven
from butlers.sessions.session import SessionMemory
from butlers.sessions.spawner import Spawner, session_model
from butlers.settings.sections import ButlerSettings

# Starting a database takes longer than asking it; still nobody waits for it for ever: not much
# before the answer, and a little longer once it is given.
OPENING_SECONDS = 6.0
LATEST_SECONDS = 15.0


@asynccontextmanager
async def opened_spawner(home: Home, settings: ButlerSettings) -> AsyncIterator[Spawner]:
    """The sessions of a butler in this process, beside whoever else uses its home."""
    server, name = DatabaseServer(home), settings.butler.name
    butler = Butler(settings, server)
    starting = asyncio.create_task(butler.start())
    starting.add_done_callback(_look_at)

    async def memory() -> Memory:
        async with asyncio.timeout(LATEST_SECONDS):
            await asyncio.shield(starting)
        return butler.memory

    try:
        if settings.runtime.kind != "none":
            await forgiven("start of memory", memory, otherwise=None, seconds=OPENING_SECONDS)
        known = SessionMemory(name, memory, settings.runtime.context_timeout_seconds)
        model = session_model(settings, lambda: butler.database)
        yield Spawner(settings, home.butler_directory(name), known, model)
    finally:
        starting.cancel()
        await asyncio.wait([starting])
        await butler.stop()
        await server.release()


def _look_at(starting: "asyncio.Task[None]") -> None:
    # Whoever needs it is told of its failure; if nobody does, that is no surprise.
    if not starting.cancelled():
        starting.exception()
