"""`butlers db`: the databases behind the butlers."""

import typer

from butlers.interfaces.cli.options import HomeOption, NameArgument, example, find_home

app = typer.Typer(help="Reach and move the butlers' databases.", no_args_is_help=True)


@app.command("url", epilog=example('psql "$(butlers db url general)"'))
def url(name: NameArgument = "general", home: HomeOption = None) -> None:
    """Print a DSN for psql: psql "$(butlers db url general)".

    The embedded server must be running, for example under `butlers up`.
    """
    from butlers.db.provision import external_access
    from butlers.host.database import DatabaseServer
    from butlers.host.home import butler_settings
    from butlers.settings.names import database_name

    located = find_home(home)
    if external := butler_settings(located, name).database.url:
        typer.echo(external_access(external, database_name(name)).owner_dsn)
    else:
        typer.echo(DatabaseServer(located).running_url(name))
