"""The `butlers` command line.

Commands import what they need when they run, so that `--help` and completion stay quick.
"""

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.errors import ButlersError
from butlers.extension import extension
from butlers.interfaces.cli import (
    agents,
    backup,
    check,
    connect,
    database,
    everyday,
    homes,
    jobs,
    logs,
    memory,
    notes,
    pause,
    portability,
    project_files,
    review,
    sessions,
    status,
    tokens,
)
from butlers.interfaces.cli.options import HomeOption, example
from butlers.interfaces.cli.shell import current_shell
from butlers.interfaces.cli.tree import BUILDERS, Group, Root

if TYPE_CHECKING:
    from butlers.interfaces.http_server import Pages

_WIDEST_HELP = 80
app = typer.Typer(
    name="butlers",
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its import would double the time --help takes
    context_settings={"help_option_names": ["-h", "--help"]},
)
BUILDERS.update(memory=memory.build, notes=notes.build)
app.command("up", epilog=example("butlers up --port 9000"))(homes.up)
app.command("status", epilog=example("butlers status --json"))(status.status)
app.command("stop", epilog=example("butlers stop"))(status.stop)
app.command("open", epilog=example("butlers open --browser"))(status.open_pages)
app.command("logs", epilog=example("butlers logs -n 100 -f"))(logs.logs)
app.command("new", epilog=example('butlers new kitchen --description "Meals"'))(homes.new)
app.command("list", epilog=example("butlers list"))(homes.list_butlers)
app.command("mcp", epilog=example("butlers mcp general"))(homes.mcp)
app.command("remember", epilog=example('butlers remember "The office moved to Graz"'))(
    everyday.remember
)
app.command("today", epilog=example("butlers today"))(everyday.today)
app.command("review", epilog=example("butlers review"))(review.review)
app.command("ask", epilog=example('butlers ask "What is due today?"'))(sessions.ask)
app.command("connect", epilog=example("butlers connect claude-code --print"))(connect.connect)
app.command("disconnect", epilog=example("butlers disconnect claude-code"))(connect.disconnect)
app.command("agents", epilog=example("butlers agents"))(agents.agents)
app.command("doctor", epilog=example("butlers doctor"))(status.doctor)
app.command("check", epilog=example("butlers check general --deep"))(check.check)
app.command("pause", epilog=example("butlers pause --project . --for 2h"))(pause.pause)
app.command("resume", epilog=example("butlers resume"))(pause.resume)
app.command("cost", epilog=example("butlers cost --days 7"))(jobs.cost)
app.command("worth", epilog=example("butlers worth --days 7"))(sessions.worth)
app.command("backup", epilog=example("butlers backup /mnt/usb/"))(backup.backup)
app.command("verify", epilog=example("butlers verify home.zip --deep"))(backup.verify)
app.command("restore", epilog=example("butlers restore home.zip --home ~/other"))(backup.restore)
app.command("remove", epilog=example("butlers remove kitchen"))(backup.remove)
app.command("export", epilog=example("butlers export memories.jsonl"))(portability.export)
app.command("files", epilog=example("butlers files memory/"))(project_files.files)
app.command("import", epilog=example("butlers import memories.jsonl"))(portability.import_memories)
app.add_typer(
    portability.erase_app, cls=Group, name="erase", epilog=example("butlers erase --about Ida")
)
app.add_typer(
    database.app, cls=Group, name="db", epilog=example('psql "$(butlers db url general)"')
)
for command in extension().commands():
    anything = command.takes_anything
    database.app.command(
        command.name,
        epilog=example(command.example),
        context_settings={"allow_extra_args": anything, "ignore_unknown_options": anything},
    )(command.run)
app.add_typer(tokens.app, cls=Group, name="token", epilog=example("butlers token list"))
app.add_typer(jobs.app, cls=Group, name="jobs", epilog=example("butlers jobs --butler kitchen"))
app.add_typer(
    sessions.app, cls=Group, name="sessions", epilog=example("butlers sessions list -n 5")
)
app.add_typer(
    homes.service_app, cls=Group, name="service", epilog=example("butlers service install")
)


@app.command("version", epilog=example("butlers version"))
def version() -> None:
    """Print the version."""
    from butlers import __version__

    typer.echo(__version__)


def _version_option(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback(epilog=example("butlers up"))
def butlers(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version_option, is_eager=True, help="Print the version."
        ),
    ] = False,
    home: HomeOption = None,
) -> None:
    """Memory for AI agents. Start with `butlers up`."""
    if home is not None:
        current_shell().environment["BUTLERS_HOME"] = str(home)


@cache
def _command() -> Any:
    return typer.main.get_command(app)


def run_command(arguments: list[str], pages: "Pages | None" = None) -> int:
    """Run a command and return its exit code; `pages` builds what `butlers up` serves."""
    width = min(current_shell().width, _WIDEST_HELP) - 2
    try:
        _command()(arguments, prog_name="butlers", obj=(pages, run_command), terminal_width=width)
    except SystemExit as end:
        return int(end.code or 0)
    except ButlersError as error:
        for line in str(error).splitlines():
            typer.echo(f"butlers: {line}", err=True)
    except OSError as error:
        # A full or read-only disk, a file of another user.
        typer.echo(f"butlers: {error.filename or 'the system'}: {error.strerror}", err=True)
    return 1
