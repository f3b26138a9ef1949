"""One butler opened in this process, for commands and for programs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from butlers.butler.butler import Butler
from butlers.butler.database import DatabaseServer
from butlers.butler.home import Home
from butlers.errors import NotFound
from butlers.settings.files import load_butler
from butlers.settings.sections import ButlerSettings


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
