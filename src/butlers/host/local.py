"""One butler in this process: for commands, for programs, and for an agent on stdio."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import structlog

from butlers.errors import NotFound
from butlers.host.butler import Butler
from butlers.host.database_server import DatabaseServer
from butlers.host.home import Home
from butlers.host.mcp_server import ButlerMCP
from butlers.host.settings import ButlerSettings
from butlers.host.settings_files import load_butler

log = structlog.get_logger(__name__)


def butler_settings(home: Home, name: str) -> ButlerSettings:
    """The settings of a butler of this home."""
    names = home.butler_names()
    if name not in names:
        known = f"there are {', '.join(names)}" if names else "there are none yet"
        raise NotFound(
            f"there is no butler {name!r} in {home.root}; {known}. `butlers new {name}` makes it"
        )
    return load_butler(home.butler_file(name), home_file=home.settings_file)


@asynccontextmanager
async def opened_butler(home: Home, name: str) -> AsyncIterator[Butler]:
    """A butler, started in this process beside whoever else uses its home."""
    server = DatabaseServer(home)
    butler = Butler(butler_settings(home, name), server)
    try:
        await butler.start()
        yield butler
    finally:
        await butler.stop()
        await server.release()


async def serve_stdio(home: Home, name: str) -> None:
    """Serve a butler's tools over standard input and output until the client goes.

    The client is answered at once; database and migrations start meanwhile, and the first tool
    call waits for them.
    """
    server = DatabaseServer(home)
    butler = Butler(butler_settings(home, name), server)
    starting = asyncio.create_task(butler.start())

    async def ready() -> None:
        await asyncio.shield(starting)

    tools = [tool for module in butler.modules for tool in module.tools()]
    try:
        await ButlerMCP(name, tools, ready=ready).run_stdio_async()
    finally:
        starting.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await starting
        await butler.stop()
        await server.release()
