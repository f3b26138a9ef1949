"""Commands that open a butler: asked, answered, and let go."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from butlers.doors.cli.options import existing_home, known_butler

if TYPE_CHECKING:
    from butlers.butler.butler import Butler
    from butlers.butler.home import Home

T = TypeVar("T")


def with_butler(name: str, home: Path | None, question: "Callable[[Butler], Awaitable[T]]") -> T:
    """The answer of a butler; its database is joined, or started for this moment."""
    import asyncio

    from butlers.logs import configure

    place = existing_home(home)
    known_butler(place, name)
    configure("error")
    return asyncio.run(_asked(place, name, question))


async def _asked(home: "Home", name: str, question: "Callable[[Butler], Awaitable[T]]") -> T:
    from butlers.butler.butler import opened_butler

    async with opened_butler(home, name) as butler:
        return await question(butler)
