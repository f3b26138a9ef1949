"""`butlers service`: the home is served from login on, without anybody typing `butlers up`."""

from typing import Annotated

import typer

from butlers.interfaces.cli.options import HomeOption, example, inhabited, located
from butlers.interfaces.cli.tables import show_line

app = typer.Typer(
    help="Keep the butlers up, as a service of systemd or launchd.", no_args_is_help=True
)
_NOT_RUNNING = 3


@app.command("install", epilog=example("butlers service install --print"))
def install(
    show: Annotated[bool, typer.Option("--print", help="Show it and write nothing.")] = False,
    home: HomeOption = None,
) -> None:
    """Have the butlers started now and whenever you log in; no root is needed.

    Doing it again brings the service up to date.
    """
    from butlers.errors import Conflict
    from butlers.host import service
    from butlers.host.status import homes_served

    place = inhabited(home)
    manager = service.manager_of(place)
    if show:
        typer.echo(f"# {manager.file}\n{manager.text}", nl=False)
        return
    if homes_served(place) and not service.is_running(manager):
        raise Conflict(
            f"the butlers of {place.root} were started by hand; `butlers stop` them first"
        )
    service.install(manager)
    show_line(f"The butlers of {place.root} are kept up: {manager.file}")
    if manager.hint:
        show_line(manager.hint, indent=2)


@app.command("status", epilog=example("butlers service status"))
def status(home: HomeOption = None) -> None:
    """Tell whether the service is there and runs; exits 3 where it does not."""
    from butlers.host import service

    place = located(home)
    manager = service.manager_of(place)
    if not manager.file.exists():
        show_line("there is no such service; `butlers service install` makes it")
        raise typer.Exit(_NOT_RUNNING)
    running = service.is_running(manager)
    show_line(f"{'runs' if running else 'does not run'}: {manager.file}")
    raise typer.Exit(0 if running else _NOT_RUNNING)


@app.command("uninstall", epilog=example("butlers service uninstall"))
def uninstall(home: HomeOption = None) -> None:
    """Stop the service and remove it; the memories stay."""
    from butlers.host import service

    manager = service.manager_of(located(home))
    gone = service.uninstall(manager)
    show_line(f"removed {manager.file}" if gone else "there was no such service")
