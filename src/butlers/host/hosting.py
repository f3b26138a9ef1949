"""Butlers of a home opened in this process, and closed again whatever happens."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import structlog

from butlers.db.lease import beside
from butlers.errors import ButlersError
from butlers.host.butler import Butler
from butlers.host.database import DatabaseServer
from butlers.host.home import Home, butler_settings
from butlers.kernel.secrets import masked
from butlers.memory.handle import Memory
from butlers.sessions.fail_open import forgiven
from butlers.sessions.session import CONTEXT_SECONDS, SessionMemory
from butlers.sessions.spawner import Spawner
from butlers.settings.sections import ButlerSettings

log = structlog.get_logger(__name__)
_AT_ONCE = 8
_TELL_SECONDS = 5.0

# Starting a database and loading a model takes longer than asking them; still nobody waits for it
# for ever: a while before the answer of a session, and then a moment each time it is needed.
_OPENING_SECONDS = 20.0
_LATEST_SECONDS = 5.0


@asynccontextmanager
async def hosted(
    home: Home, settings: Iterable[ButlerSettings]
) -> AsyncIterator[tuple[DatabaseServer, list[Butler]]]:
    """Butlers yet to be started; at the end all are stopped, whatever happens."""
    chosen = list(settings)
    server = DatabaseServer(home, len(chosen))
    butlers = [Butler(one, server) for one in chosen]
    try:
        yield server, butlers
    finally:
        await asyncio.gather(*(butler.stop() for butler in butlers), return_exceptions=True)
        await server.release()


async def start_side_by_side(butlers: Sequence[Butler]) -> list[ButlersError]:
    """Start butlers, a few at a time; why those failed that did, which keeps no other."""
    turn, ended = asyncio.Semaphore(_AT_ONCE), 0

    async def start(butler: Butler) -> ButlersError | None:
        nonlocal ended
        async with turn:
            failure = await started(butler)
            ended += 1
            return failure

    async def tell() -> None:
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            log.info(f"{ended} of {len(butlers)} butlers are up")

    async with beside(tell()), asyncio.TaskGroup() as group:
        starting = [group.create_task(start(butler)) for butler in butlers]
    return [failure for one in starting if (failure := one.result()) is not None]


async def started(butler: Butler) -> ButlersError | None:
    """Start what can be started of a butler; why nothing can."""
    try:
        await butler.start()
    except ButlersError as error:
        log.error("butler failed to start", butler=butler.name, error=masked(str(error)).text)
        return error
    return None


@asynccontextmanager
async def opened_butler(home: Home, name: str) -> AsyncIterator[Butler]:
    """A butler, started in this process beside whoever else uses its home."""
    async with hosted(home, [butler_settings(home, name)]) as (_, [butler]):
        await butler.start()
        yield butler


@asynccontextmanager
async def opened_spawner(home: Home, settings: ButlerSettings) -> AsyncIterator[Spawner]:
    """The sessions of a butler in this process; it answers even if its database never starts."""
    async with hosted(home, [settings]) as (_, [butler]):
        starting = asyncio.create_task(butler.start_warm())
        # Whoever needs it is told of its failure; if nobody does, that is no surprise.
        starting.add_done_callback(lambda one: one.cancelled() or one.exception())

        async def started() -> Memory:
            await asyncio.shield(starting)
            return butler.memory

        async def memory() -> Memory:
            async with asyncio.timeout(_LATEST_SECONDS):
                return await started()

        try:
            if settings.runtime.kind != "none":
                await forgiven("start of memory", started, otherwise=None, seconds=_OPENING_SECONDS)
            yield butler.spawner(SessionMemory(butler.name, memory, CONTEXT_SECONDS))
        finally:
            starting.cancel()
            await asyncio.wait([starting])
