"""`butlers db`: reach a butler's database with tools of your own."""

from typing import Annotated

import typer

from butlers.doors.cli.options import HomeOption, example, existing_home, known_butler

app = typer.Typer(help="The databases behind the butlers.", no_args_is_help=True)


@app.command("url", epilog=example('psql "$(butlers db url general)"'))
def url(
    name: Annotated[str, typer.Argument(help="Which butler.")] = "general",
    home: HomeOption = None,
) -> None:
    """Print a DSN for psql: psql "$(butlers db url general)".

    The embedded server runs while something holds it, `butlers up` for example.
    """
    from butlers.butler.database import DatabaseServer
    from butlers.db.provision import external_access
    from butlers.settings.files import load_butler
    from butlers.settings.names import database_name

    place = existing_home(home)
    known_butler(place, name)
    settings = load_butler(place.butler_file(name), home_file=place.settings_file)
    if settings.database.url:
        typer.echo(external_access(settings.database.url, database_name(name)).owner_dsn)
    else:
        typer.echo(DatabaseServer(place).running_url(name))
