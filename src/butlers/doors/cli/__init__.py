"""The command line: parse, call, print.

Commands import what they need when they run, so that `--help` and completion stay quick.
"""

import sys
from typing import TYPE_CHECKING

import typer

from butlers.doors.cli import (
    ask,
    connect,
    cost,
    database,
    diagnosis,
    homes,
    jobs,
    mcp,
    memory,
    notes,
    tokens,
)
from butlers.errors import ButlersError

if TYPE_CHECKING:
    from butlers.doors.server import Pages

app = typer.Typer(
    name="butlers",
    help="Memory for AI agents. Start with `butlers up`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its import would double the time --help takes
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(homes.up)
app.command("new")(homes.new)
app.command("list")(homes.list_butlers)
app.command("mcp")(mcp.serve)
app.command("ask")(ask.ask)
app.command("connect")(connect.connect)
app.command("disconnect")(connect.disconnect)
app.command("doctor")(diagnosis.doctor)
app.command("cost")(cost.cost)
app.add_typer(database.app, name="db")
app.add_typer(tokens.app, name="token")
app.add_typer(memory.app, name="memory")
app.add_typer(jobs.app, name="jobs")
app.add_typer(notes.app, name="notes")


@app.command("version")
def version() -> None:
    """Print the version."""
    from butlers import __version__

    typer.echo(__version__)


def main(pages: "Pages | None" = None) -> None:
    """Run a command; an error of ours is one line per fault, never a stack trace.

    `pages` makes what `butlers up` shows in a browser.
    """
    try:
        app(obj=pages)
    except ButlersError as error:
        for line in str(error).splitlines():
            typer.echo(f"butlers: {line}", err=True)
        sys.exit(1)
    except OSError as error:
        # What the system refuses: a disk that is full or read-only, a file of another user.
        typer.echo(f"butlers: {error.filename or 'the system'}: {error.strerror}", err=True)
        sys.exit(1)
