"""`butlers token`: who may call a butler."""

from typing import TYPE_CHECKING, Annotated

import typer

from butlers.doors.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    example,
    existing_home,
    home_of,
)
from butlers.doors.cli.tables import show_json

if TYPE_CHECKING:
    from butlers.butler.tokens import TokenStore

app = typer.Typer(help="Tokens: who may call a butler, and as which tenant.", no_args_is_help=True)


@app.command("new", epilog=example("butlers token new --butler general --note laptop"))
def new(
    butler: ButlerOption = "general",
    tenant: Annotated[str, typer.Option(help="Whose memories the token opens.")] = "default",
    agent: Annotated[
        str, typer.Option(help="Whose notes it opens in the notebook [default: the butler's].")
    ] = "",
    note: Annotated[str, typer.Option(help="What it is for, for your own list.")] = "",
    home: HomeOption = None,
) -> None:
    """Make a token; it is printed once, alone on the last line, and kept only as a hash."""
    home_of(butler, home)
    record, token = _store(home).create(butler, tenant, note, agent)
    whose = f"tenant {tenant}" + (f", agent {agent}" if agent else "")
    typer.echo(f"token {record.id} for butler {butler}, {whose}; it is not shown again:")
    typer.echo(token)


@app.command("list", epilog=example("butlers token list --json"))
def list_tokens(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List the tokens: id, butler, tenant, age, note and agent, never the token itself."""
    records = [record.shown() for record in _store(home).all()]
    if as_json:
        show_json(records)
        return
    if not records:
        typer.echo("no tokens yet; make one with: butlers token new --butler NAME --tenant T")
    for record in records:
        shown = ("id", "butler", "tenant", "created_at", "note", "agent")
        typer.echo("\t".join(record[key] for key in shown).rstrip())


@app.command("revoke", epilog=example("butlers token revoke 3f9c21ab"))
def revoke(
    token_id: Annotated[str, typer.Argument(help="The id that `butlers token list` shows.")],
    home: HomeOption = None,
) -> None:
    """Revoke a token; its holder is refused from the next request on."""
    record = _store(home).revoke(token_id)
    typer.echo(f"token {record.id} for butler {record.butler}, tenant {record.tenant} is revoked")


def _store(home: HomeOption) -> "TokenStore":
    from butlers.butler.tokens import TokenStore

    return TokenStore(existing_home(home).tokens_file)
