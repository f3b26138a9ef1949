"""What every memory command does: open the butler's memory, ask, and let go."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from butlers.doors.cli.options import existing_home, known_butler

if TYPE_CHECKING:
    from butlers.doors.python import ButlerMemory

T = TypeVar("T")

TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="Whose memories [default: the butler's own tenant].")
]
ScopeSeenOption = Annotated[
    str | None, typer.Option("--scope", help="Only what is global or of this butler.")
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", help="How many at most.")]
ReferenceArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="[fact|rule|episode] ID",
        help="The id, or at least its first 6 digits; the kind may be left out.",
    ),
]


def ask(
    butler: str,
    home: Path | None,
    tenant: str | None,
    question: "Callable[[ButlerMemory], Awaitable[T]]",
) -> T:
    """The answer of a butler's memory; the database is joined, or started for this moment."""
    import asyncio

    from butlers.logs import configure

    place = existing_home(home)
    known_butler(place, butler)
    configure("warning")
    return asyncio.run(_ask(butler, place.root, tenant, question))


def reference(given: list[str]) -> tuple[str | None, str]:
    """The kind, if one was named, and the id."""
    from butlers.errors import InvalidInput

    match given:
        case [memory_id]:
            return None, memory_id
        case [kind, memory_id]:
            return kind, memory_id
    raise InvalidInput(f"found {len(given)} words; valid is an id, or fact, rule or episode and id")


def nothing_there(butler: str, what: str, memory_id: str) -> Exception:
    """The error that says there is no such memory."""
    from butlers.errors import NotFound

    return NotFound(
        f"butler {butler} has no {what} {memory_id} for this tenant; "
        "`butlers memory search` shows ids"
    )


async def _ask(
    butler: str,
    home: Path,
    tenant: str | None,
    question: "Callable[[ButlerMemory], Awaitable[T]]",
) -> T:
    from butlers.doors.python import open_memory

    async with open_memory(butler, home=home, tenant=tenant, actor="cli") as memory:
        return await question(memory)
