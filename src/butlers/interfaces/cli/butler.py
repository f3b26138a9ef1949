"""`butlers mcp` and `butlers db`: one butler, for an agent or a tool."""

import typer

from butlers.interfaces.cli.options import (
    HomeOption,
    LowTrustOption,
    NameArgument,
    example,
    home_of,
    inhabited,
)

database = typer.Typer(help="The databases behind the butlers.", no_args_is_help=True)


def serve(
    name: NameArgument = "general", low_trust: LowTrustOption = False, home: HomeOption = None
) -> None:
    """Serve a butler's MCP tools on stdio, as the command in an agent's configuration.

    No token is needed: whoever may start it is the butler's own configured tenant. While the home
    is up it only hands on to the process that serves it; else it is a server of its own.
    """
    import asyncio

    from butlers.interfaces.mcp.stdio import serve_stdio
    from butlers.logs import configure

    place = inhabited(home)
    configure("warning")
    asyncio.run(serve_stdio(place, name, low_trust=low_trust))


@database.command("url", epilog=example('psql "$(butlers db url general)"'))
def url(name: NameArgument = "general", home: HomeOption = None) -> None:
    """Print a DSN for psql: psql "$(butlers db url general)".

    The embedded server runs while something holds it, `butlers up` for example.
    """
    from butlers.db.provision import external_access
    from butlers.host.database import DatabaseServer
    from butlers.host.home import butler_settings
    from butlers.settings.names import database_name

    place = home_of(name, home)
    settings = butler_settings(place, name)
    if settings.database.url:
        typer.echo(external_access(settings.database.url, database_name(name)).owner_dsn)
    else:
        typer.echo(DatabaseServer(place).running_url(name))
