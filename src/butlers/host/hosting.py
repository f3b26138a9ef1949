"""Open butlers of a home in this process, and close them whatever happens."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog

from butlers.db.lease import beside
from butlers.db.postgres import Access, Database
from butlers.embedding import get_embedding_engine
from butlers.errors import ButlersError
from butlers.host.butler import Butler
from butlers.host.database import DatabaseServer
from butlers.host.home import Home, butler_settings
from butlers.kernel.secrets import masked
from butlers.memory.flows.check import SOME, StoreCheck
from butlers.memory.handle import Memory
from butlers.sessions.fail_open import forgiven
from butlers.sessions.session import CONTEXT_SECONDS, SessionMemory
from butlers.sessions.spawner import Spawner
from butlers.settings.sections import ButlerSettings

log = structlog.get_logger(__name__)
_AT_ONCE = 8
_PROGRESS_SECONDS = 5.0

# How long a session waits for its memory to start: before the answer, and whenever it is used.
_OPENING_SECONDS = 20.0
_LATEST_SECONDS = 5.0


@asynccontextmanager
async def hosted(
    home: Home, settings: Iterable[ButlerSettings]
) -> AsyncIterator[tuple[DatabaseServer, list[Butler]]]:
    """Yield the database server and butlers, not started yet; stop them all at the end."""
    chosen = list(settings)
    server = DatabaseServer(home, len(chosen))
    butlers = [Butler(each, server) for each in chosen]
    try:
        yield server, butlers
    finally:
        await asyncio.gather(*(butler.stop() for butler in butlers), return_exceptions=True)
        await server.release()


async def start_side_by_side(butlers: Sequence[Butler]) -> list[ButlersError]:
    """Start butlers, a few at a time; return the errors of those that failed."""
    limit, starting = asyncio.Semaphore(_AT_ONCE), list[asyncio.Task[ButlersError | None]]()

    async def start(butler: Butler) -> ButlersError | None:
        async with limit:
            return await started(butler)

    async def log_progress() -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            ended = sum(task.done() for task in starting)
            log.info(f"{ended} of {len(butlers)} butlers are up")

    async with beside(log_progress()), asyncio.TaskGroup() as group:
        starting += [group.create_task(start(butler)) for butler in butlers]
    return [failure for task in starting if (failure := task.result()) is not None]


async def check_butler(butler: Butler, **scope: Any) -> StoreCheck:
    """Check what a started butler's memory holds; `scope` says how much, see `StoreCheck`."""
    return await StoreCheck(butler.memory, butler.server.owner_dsns[butler.name], **scope).run()


async def check_database(butler: str, access: Access) -> list[str]:
    """Return what does not agree in a database that no butler of this process has open."""
    database = await Database.open(access, pool_max=1)
    try:
        memory = Memory(database, get_embedding_engine, butler)
        return (await StoreCheck(memory, access.owner_dsn).run()).lines
    finally:
        await database.close()


async def _start(butler: Butler) -> None:
    """Start a butler; after an upgrade check some of what it holds, and log what is wrong."""
    await butler.start()
    if butler.name not in butler.server.upgraded or not butler.settings.is_enabled("memory"):
        return
    butler.server.upgraded.discard(butler.name)
    with suppress(ButlersError):  # what cannot be checked now is checked at night
        for line in (await check_butler(butler, limit=SOME)).lines:
            log.warning("after the upgrade", butler=butler.name, found=line)


async def started(butler: Butler) -> ButlersError | None:
    """Start a butler; return the error if none of its modules can start."""
    try:
        await _start(butler)
    except ButlersError as error:
        log.error("butler failed to start", butler=butler.name, error=masked(str(error)).text)
        return error
    return None


@asynccontextmanager
async def opened_butler(home: Home, name: str) -> AsyncIterator[Butler]:
    """Start a butler in this process; others may use the same home meanwhile.

    An embedded server that dies is started again.
    """
    async with hosted(home, [butler_settings(home, name)]) as (server, [butler]):
        await _start(butler)
        async with server.kept_alive():
            yield butler


@asynccontextmanager
async def opened_spawner(home: Home, settings: ButlerSettings) -> AsyncIterator[Spawner]:
    """Run sessions of a butler in this process; it answers even if its database never starts."""
    async with hosted(home, [settings]) as (_, [butler]):
        starting = asyncio.create_task(butler.start_warm())
        # Read the error, so that asyncio does not complain if nobody else does.
        starting.add_done_callback(lambda task: task.cancelled() or task.exception())

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
