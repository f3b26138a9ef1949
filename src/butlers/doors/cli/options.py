"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from butlers.butler.home import Home

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", help="Home directory [default: $BUTLERS_HOME, else ~/.butlers]."),
]
ButlerOption = Annotated[str, typer.Option("--butler", "-b", help="Which butler.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def example(*commands: str) -> str:
    """The end of a help text: the command as somebody would type it."""
    # The mark keeps lines as they are; without it they would be filled like a paragraph.
    return "\b\nExample:\n" + "\n".join(f"  {command}" for command in commands)


def existing_home(home: Path | None) -> "Home":
    """The home, which must have at least one butler."""
    from butlers.butler.home import Home
    from butlers.errors import NotFound

    found = Home.locate(home)
    if not found.butler_names():
        raise NotFound(f"there are no butlers in {found.root}; start with `butlers up`")
    return found


def known_butler(home: "Home", name: str) -> str:
    """The name of a butler this home has."""
    from butlers.errors import NotFound

    names = home.butler_names()
    if name not in names:
        raise NotFound(
            f"there is no butler {name!r} in {home.root}; there are {', '.join(names)}. "
            f"`butlers new {name}` makes one"
        )
    return name
