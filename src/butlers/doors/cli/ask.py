"""`butlers ask`: one session of a butler, with its memories."""

from typing import TYPE_CHECKING, Annotated

import typer

from butlers.doors.cli.options import HomeOption

if TYPE_CHECKING:
    from butlers.butler.home import Home
    from butlers.settings.sections import ButlerSettings


def ask(
    name: Annotated[str, typer.Argument(help="Which butler.")],
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads standard input.")],
    home: HomeOption = None,
) -> None:
    """Ask a butler: it answers knowing what it remembers, and remembers what happened.

    Its instructions are CLAUDE.md in its directory; [runtime] in its butler.toml says what runs
    the session. A memory that is down or slow does not keep it from answering.
    """
    import asyncio

    from butlers.butler.butler import butler_settings
    from butlers.butler.home import Home
    from butlers.logs import configure

    place = Home.locate(home)
    settings = butler_settings(place, name)
    configure("warning")
    given = typer.get_text_stream("stdin").read() if prompt == "-" else prompt
    asyncio.run(_session(place, settings, given))


async def _session(home: "Home", settings: "ButlerSettings", prompt: str) -> None:
    from butlers.butler.sessions import opened_spawner
    from butlers.errors import InvalidInput

    if not prompt.strip():
        raise InvalidInput("prompt: found nothing; say what to ask")
    async with opened_spawner(home, settings) as spawner:
        session = await spawner.ask(prompt)
        # Said before it is stored: the answer waits for nothing.
        typer.echo(session.completion.text)
        await spawner.remember(session)
