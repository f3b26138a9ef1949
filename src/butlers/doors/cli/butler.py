"""`butlers mcp`, `butlers ask` and `butlers db`: one butler, for an agent, a person or a tool."""

from typing import TYPE_CHECKING, Annotated

import typer

from butlers.doors.cli.options import HomeOption, NameArgument, example, home_of, inhabited, located

if TYPE_CHECKING:
    from butlers.butler.home import Home
    from butlers.settings.sections import ButlerSettings

database = typer.Typer(help="The databases behind the butlers.", no_args_is_help=True)


def serve(name: NameArgument = "general", home: HomeOption = None) -> None:
    """Serve a butler's MCP tools on stdio, as the command in an agent's configuration.

    No token is needed: whoever may start it is the butler's own configured tenant. While the home
    is up it only hands on to the process that serves it; else it is a server of its own.
    """
    import asyncio

    from butlers.doors.mcp.stdio import serve_stdio
    from butlers.logs import configure

    place = inhabited(home)
    configure("warning")
    asyncio.run(serve_stdio(place, name))


def ask(
    name: NameArgument,
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads standard input.")],
    home: HomeOption = None,
) -> None:
    """Ask a butler: it answers knowing what it remembers, and remembers what happened.

    Its instructions are CLAUDE.md in its directory; [runtime] in its butler.toml says what runs
    the session. A memory that is down or slow does not keep it from answering.
    """
    import asyncio

    from butlers.butler.butler import butler_settings
    from butlers.logs import configure

    place = located(home)
    settings = butler_settings(place, name)
    configure("warning")
    given = typer.get_text_stream("stdin").read() if prompt == "-" else prompt
    asyncio.run(_session(place, settings, given))


async def _session(home: "Home", settings: "ButlerSettings", prompt: str) -> None:
    from butlers.butler.butler import opened_spawner
    from butlers.errors import InvalidInput

    if not prompt.strip():
        raise InvalidInput("prompt: found nothing; say what to ask")
    async with opened_spawner(home, settings) as spawner:
        session = await spawner.ask(prompt)
        # Said before it is stored: the answer waits for nothing.
        typer.echo(session.completion.text)
        await spawner.remember(session)


@database.command("url", epilog=example('psql "$(butlers db url general)"'))
def url(name: NameArgument = "general", home: HomeOption = None) -> None:
    """Print a DSN for psql: psql "$(butlers db url general)".

    The embedded server runs while something holds it, `butlers up` for example.
    """
    from butlers.butler.butler import butler_settings
    from butlers.butler.database import DatabaseServer
    from butlers.db.provision import external_access
    from butlers.settings.names import database_name

    place = home_of(name, home)
    settings = butler_settings(place, name)
    if settings.database.url:
        typer.echo(external_access(settings.database.url, database_name(name)).owner_dsn)
    else:
        typer.echo(DatabaseServer(place).running_url(name))
