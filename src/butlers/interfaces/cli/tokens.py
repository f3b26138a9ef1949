"""`butlers token`: make, list and revoke access tokens."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    LowTrustOption,
    example,
    find_home,
    home_of,
    run,
)
from butlers.interfaces.cli.output import show_json, show_table, when
from butlers.interfaces.cli.presence import prove_presence

if TYPE_CHECKING:
    from datetime import datetime

    from butlers.auth.tokens import TokenRecord

_TITLES = ("id", "butler", "tenant", "rights", "made", "expires", "used", "note", "agent")
app = typer.Typer(help="Make, list and revoke access tokens.", no_args_is_help=True)


@app.command("new", epilog=example("butlers token new --butler general --note laptop"))
def new(
    butler: ButlerOption = "general",
    tenant: Annotated[
        str, typer.Option(help="Which tenant's memories it gives access to.")
    ] = "default",
    agent: Annotated[
        str, typer.Option(help="Which agent's notes it gives access to [default: the butler's].")
    ] = "",
    note: Annotated[str, typer.Option(help="A note for your own list.")] = "",
    rights: Annotated[
        Literal["hook", "read", "write", "operate"],
        typer.Option(help="read, write (and read), or operate (maintenance too)."),
    ] = "write",
    expires: Annotated[
        str, typer.Option(help="When it expires: 12h, 90d, 8w or a date such as 2030-12-31.")
    ] = "",
    low_trust: LowTrustOption = False,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="Limit it to a scope: global, a butler's name or a project's scope; repeatable."
        ),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Make a token. It is printed once, on the last line; only its hash is stored.

    Only a person can, once the home has a token: at a terminal, or with an operator token.
    """
    from butlers.auth.rights import Right
    from butlers.auth.token_grant import TokenGrant, expiry
    from butlers.auth.tokens import new_token
    from butlers.clock import utc_now
    from butlers.host.home_tokens import home_tokens

    located, now = home_of(butler, home), utc_now()
    ends = expiry(expires, now)
    grant = TokenGrant(tenant, note, agent, Right(rights), ends, low_trust, tuple(scope or ()))
    record, token = new_token(butler, grant, now)
    whose = f"tenant {tenant}" + (f", agent {agent}" if agent else "")
    limits = f"may {rights}" + (f" until {when(ends)}" if ends else "") + _within(record)
    tokens = home_tokens(located)
    if located.tokens_file.exists() or run(tokens.list_all()):  # the first belongs to the set-up
        about = [f"a token for butler {butler}, {whose}, {limits}"]
        run(prove_presence(located, butler, tenant, "make a token", about))
    run(tokens.keep(record))
    typer.echo(f"token {record.id} for butler {butler}, {whose}, {limits}; it is not shown again:")
    typer.echo(token)


@app.command("list", epilog=example("butlers token list --json"))
def list_tokens(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List tokens: tenant, rights, expiry and last use."""
    from butlers.host.home_tokens import home_tokens

    tokens = run(home_tokens(find_home(home).checked()).list_all())
    if as_json:
        show_json([token.record.shown() | {"last_used_at": token.used_at} for token in tokens])
        return
    if not tokens:
        typer.echo("no tokens yet; make one with: butlers token new --butler NAME --tenant T")
        return
    rows = [_columns(token.record, token.used_at) for token in tokens]
    show_table(_TITLES, rows, wraps=("rights", "note"))


def _columns(record: "TokenRecord", used: "datetime | None") -> list[str]:
    rights = f"{record.rights}{' (low trust)' if record.low_trust else ''}{_within(record)}"
    times = [_day(record.created_at), _day(record.expires_at), _day(used)]
    return [record.id, record.butler, record.tenant, rights, *times, record.note, record.agent]


def _day(instant: "datetime | str | None") -> str:
    return when(instant)[:10] or "never"


def _within(record: "TokenRecord") -> str:
    return f" in {', '.join(record.scopes)}" if record.scopes else ""


@app.command("revoke", epilog=example("butlers token revoke 3f9c21ab"))
def revoke(
    token_id: Annotated[str, typer.Argument(help="The id that `butlers token list` shows.")],
    home: HomeOption = None,
) -> None:
    """Revoke a token. It is refused from the next request on.

    Only a person can. With several daemons this takes up to two seconds.
    """
    from butlers.host.home_tokens import home_tokens

    located = find_home(home).checked()
    tokens = home_tokens(located)
    for known in [usage.record for usage in run(tokens.list_all()) if usage.record.id == token_id]:
        about = ["  ".join(_columns(known, None))]
        run(prove_presence(located, known.butler, known.tenant, "revoke a token", about))
    record = run(tokens.revoke_anywhere(token_id))
    typer.echo(f"token {record.id} for butler {record.butler}, tenant {record.tenant} is revoked")
