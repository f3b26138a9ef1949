"""`butlers up`, `butlers new` and `butlers list`."""

import os
import shlex
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from butlers.interfaces.cli.options import HomeOption, JsonOption, existing_home, located
from butlers.interfaces.cli.tables import show_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from butlers.host.home import Home
    from butlers.host.status import Running
    from butlers.interfaces.server import Pages
    from butlers.settings.files import HouseSettings


def up(
    context: typer.Context,
    home: HomeOption = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 takes a free one [default: 8900].")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let --host be one that others can reach.")
    ] = False,
) -> None:
    """Start every butler of the home and serve them until Ctrl-C.

    An empty home gets one butler, `general`, and a token for it. A home whose butlers are all on an
    external server may be served by several processes, each on a port of its own.
    """
    import asyncio
    from dataclasses import replace

    from butlers.host.status import beside_others
    from butlers.logs import configure
    from butlers.settings.files import load_house, override_server

    place = located(home)
    place.ensure_general()
    given = {"host": host, "port": port, "allow_remote": allow_remote or None}
    house = load_house(place.settings_file, place.butler_files())
    chosen = {key: value for key, value in given.items() if value is not None}
    house = replace(house, server=override_server(house.server, chosen))
    several = all(one.database.url for one in house.butlers.values())
    with beside_others(place) if several else _alone(place) as here:
        configure(house.server.log_level, log_file=here.log_file)
        asyncio.run(_serve(here, house, context.obj))


@contextmanager
def _alone(home: "Home") -> "Iterator[Home]":
    from butlers.host.status import alone

    with alone(home):
        yield home


def new(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and underscores.")],
    description: Annotated[str, typer.Option(help="What the butler is for.")] = "",
    home: HomeOption = None,
) -> None:
    """Add a butler to the home; it is served from the next `butlers up` on."""
    place = located(home)
    file = place.create_butler(name, description)
    typer.echo(f"{name} is ready: {file}")
    command = typed(place, "token", "new", "--butler", name, "--tenant", "default")
    typer.echo(f"Make a token for it: {command}")


def list_butlers(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List the butlers of the home."""
    place = existing_home(home)
    files = {file.parent.name: str(file) for file in place.butler_files()}
    if as_json:
        show_json([{"name": name, "file": file} for name, file in files.items()])
        return
    for name, file in files.items():
        typer.echo(f"{name}\t{file}")


async def _serve(home: "Home", house: "HouseSettings", pages: "Pages | None") -> None:
    from butlers.host.invitations import Invitations
    from butlers.interfaces.daemon import run

    # Tokens and links are made last: those made for a start that failed would never be seen.
    async def welcome(running: "Running") -> None:
        link = running.url + Invitations(home).create() if pages is not None else ""
        _welcome(home, running, link, await _first_token(home, house))
        for name in house.failed:
            typer.echo(f"butlers: {name} failed to start; `butlers status` says why", err=True)

    await run(home, house, welcome, pages)


async def _first_token(home: "Home", house: "HouseSettings") -> tuple[str, str] | None:
    """A token for the first butler, made only in a home that never had one, nor others with it."""
    from butlers.clock import utc_now
    from butlers.errors import ButlersError
    from butlers.host.token_keeping import all_tokens, keep_token
    from butlers.host.token_record import new_token
    from butlers.host.tokens import TokenStore
    from butlers.kernel.rights import Right

    name, settings = next(iter(house.butlers.items()))
    tenant = settings.butler.tenant
    record, token = new_token(name, tenant, "first start", now=utc_now(), rights=Right.OPERATE)
    try:
        if home.tokens_file.exists() or await all_tokens(home):
            return None
        await keep_token(home, record)
        TokenStore(home.tokens_file).add([])  # that it had one is known, be it revoked or shared
    except ButlersError:  # of a butler whose database is away
        return None
    return name, token


def _welcome(
    home: "Home", running: "Running", link: str, first_token: tuple[str, str] | None
) -> None:
    lines = [f"Butlers are up at {running.url}   (Ctrl-C stops them)"]
    lines += [f"  {name}: {served['mcp']}" for name, served in running.butlers.items()]
    lines += [""]
    if link:
        lines += ["See what they remember (works once, for ten minutes):", f"  {link}"]
        lines += ["Another link, later:", f"  {typed(home, 'open')}"]
    name, token = first_token or (next(iter(running.butlers)), None)
    if token:
        lines += [f"A token for {name}, shown this once:", f"  export BUTLER_TOKEN={token}"]
    else:
        command = typed(home, "token", "new", "--butler", name, "--tenant", "default")
        lines += ["A token for an agent:", f"  {command}"]
    whose = [] if name == "general" else ["--butler", name]
    lines += [
        "Give an agent its memory, in Claude Code for example:",
        f"  claude mcp add --transport http {name} {running.butlers[name]['mcp']} "
        '--header "Authorization: Bearer $BUTLER_TOKEN"',
        "or, so that every session is remembered too, in a project's directory (codex likewise):",
        f"  {typed(home, 'connect', 'claude-code', *whose)}",
    ]
    typer.echo("\n".join(lines))


def typed(home: "Home", *arguments: str) -> str:
    """A command for this home that works in any directory of this user."""
    default = Path(os.path.abspath(Path("~/.butlers").expanduser()))
    where = [] if home.root == default else ["--home", str(home.root)]
    return shlex.join([*_program(), *arguments, *where])


def _program() -> list[str]:
    """The program as it was started: by its name if that finds it, else by its path."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return [sys.executable, "-m", "butlers"]
    found = shutil.which("butlers")
    if found is not None and started.exists() and os.path.samefile(found, started):
        return ["butlers"]
    return [str(started.absolute())]
