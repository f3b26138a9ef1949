"""What several commands share: options, the home they name, and a butler opened for a moment."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.host.home import Home

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", help="Home directory [default: $BUTLERS_HOME, else ~/.butlers]."),
]
LowTrustOption = Annotated[
    bool,
    typer.Option("--low-trust", help="What the agent says counts for less: strangers reach it."),
]
ButlerOption = Annotated[str, typer.Option("--butler", "-b", help="Which butler.")]
NameArgument = Annotated[str, typer.Argument(help="Which butler.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

T = TypeVar("T")


def example(*commands: str) -> str:
    """The end of a help text: the command as somebody would type it."""
    # The mark keeps lines as they are; without it they would be filled like a paragraph.
    return "\b\nExample:\n" + "\n".join(f"  {command}" for command in commands)


def located(home: Path | None) -> "Home":
    """The home that was asked for, which need not be there yet."""
    from butlers.host.home import Home

    return Home.locate(home)


def inhabited(home: Path | None) -> "Home":
    """The home, with a first butler if it had none."""
    found = located(home)
    if not found.butler_names():
        found.ensure_general()
    return found


def existing_home(home: Path | None) -> "Home":
    """The home, which must have at least one butler."""
    from butlers.errors import NotFound

    found = located(home)
    if not found.butler_names():
        raise NotFound(f"there are no butlers in {found.root}; start with `butlers up`")
    return found


def home_of(butler: str, home: Path | None) -> "Home":
    """The home, which must have this butler."""
    from butlers.errors import NotFound

    found = existing_home(home)
    names = found.butler_names()
    if butler not in names:
        raise NotFound(
            f"there is no butler {butler!r} in {found.root}; there are {', '.join(names)}. "
            f"`butlers new {butler}` makes one"
        )
    return found


def with_butler(name: str, home: Path | None, question: "Callable[[Butler], Awaitable[T]]") -> T:
    """The answer of a butler; its database is joined, or started for this moment."""
    import asyncio

    from butlers.host.hosting import opened_butler
    from butlers.logs import configure

    place = home_of(name, home)
    configure("error")

    async def asked() -> T:
        async with opened_butler(place, name) as butler:
            return await question(butler)

    return asyncio.run(asked())


def memory_context(opened: "Butler", tenant: str | None) -> Any:
    """Where operations of a butler's memory are called for whoever sits at this terminal."""
    from butlers.host.token_record import acting_tenant
    from butlers.module import Caller

    acting = acting_tenant(opened.settings.butler.tenant, tenant)
    return opened.module("memory").operation_context(Caller(acting, "cli", is_operator=True))
