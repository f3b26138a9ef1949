"""Shared by commands: options, finding the home, and opening a butler for one command."""

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
    typer.Option(
        "--low-trust", help="Trust this agent's statements less, e.g. because strangers reach it."
    ),
]
ButlerOption = Annotated[str, typer.Option("--butler", "-b", help="Which butler.")]
NameArgument = Annotated[str, typer.Argument(help="Which butler.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

T = TypeVar("T")


def example(*commands: str) -> str:
    """Format the examples at the end of a help text."""
    # \b keeps the line breaks; without it the lines would be filled like a paragraph.
    return "\b\nExample:\n" + "\n".join(f"  {command}" for command in commands)


def find_home(home: Path | None) -> "Home":
    """Locate the home, which need not exist yet."""
    from butlers.host.home import Home

    return Home.locate(home)


def ensure_home(home: Path | None) -> "Home":
    """Locate the home; create its first butler if it has none."""
    located = find_home(home)
    if not located.butler_names():
        located.ensure_general()
    return located


def existing_home(home: Path | None) -> "Home":
    """Locate the home; NotFound if it has no butler."""
    from butlers.errors import NotFound

    located = find_home(home)
    if not located.butler_names():
        raise NotFound(f"there are no butlers in {located.root}; start with `butlers up`")
    return located


def home_of(butler: str, home: Path | None) -> "Home":
    """Locate the home; NotFound if it lacks this butler."""
    from butlers.errors import NotFound

    located = existing_home(home)
    names = located.butler_names()
    if butler not in names:
        raise NotFound(
            f"there is no butler {butler!r} in {located.root}; there are {', '.join(names)}. "
            f"`butlers new {butler}` creates it"
        )
    return located


def with_butler(name: str, home: Path | None, work: "Callable[[Butler], Awaitable[T]]") -> T:
    """Open a butler, do some work with it and close it.

    A database server that runs is joined; otherwise it is started for this command.
    """
    import asyncio

    from butlers.host.hosting import opened_butler
    from butlers.logs import configure

    located = home_of(name, home)
    configure("error")

    async def run() -> T:
        async with opened_butler(located, name) as butler:
            return await work(butler)

    return asyncio.run(run())


def acting_as(opened: "Butler", tenant: str | None) -> str:
    """The tenant a command acts for: the one named, else the butler's own."""
    from butlers.auth.tokens import acting_tenant

    return acting_tenant(opened.settings.butler.tenant, tenant)


def memory_context(opened: "Butler", tenant: str | None) -> Any:
    """Make the context in which this terminal's user calls memory operations."""
    from butlers.auth.rights import Caller

    caller = Caller(acting_as(opened, tenant), "cli", is_operator=True)
    return opened.module("memory").operation_context(caller)
