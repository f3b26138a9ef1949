"""`butlers up`, `butlers new` and `butlers list`."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from butlers.cli.options import HomeOption, JsonOption, existing_home

if TYPE_CHECKING:
    from butlers.host.daemon import Running
    from butlers.host.home import Home
    from butlers.host.settings_files import HouseSettings


def up(
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

    An empty home gets one butler, `general`, and a token for it.
    """
    from butlers.host.home import Home
    from butlers.host.logs import configure

    place = Home.locate(home)
    place.ensure_general()
    given = {"host": host, "port": port, "allow_remote": allow_remote or None}
    house = _house(place, {key: value for key, value in given.items() if value is not None})
    configure(house.server.log_level, log_file=place.logs_directory / "butlers.log")
    token = _first_token(place, house)
    asyncio.run(_serve(place, house, token))


def new(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and underscores.")],
    description: Annotated[str, typer.Option(help="What the butler is for.")] = "",
    home: HomeOption = None,
) -> None:
    """Add a butler to the home; it is served from the next `butlers up` on."""
    from butlers.host.home import Home

    file = Home.locate(home).create_butler(name, description)
    typer.echo(f"{name} is ready: {file}")
    typer.echo(f"Make a token for it: butlers token new --butler {name} --tenant default")


def list_butlers(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List the butlers of the home."""
    place = existing_home(home)
    if as_json:
        typer.echo(json.dumps(place.butler_names()))
        return
    for name in place.butler_names():
        typer.echo(f"{name}\t{place.butler_file(name)}")


def _house(home: "Home", given: dict[str, object]) -> "HouseSettings":
    from dataclasses import replace

    from butlers.host.settings_files import load_house, override_server

    house = load_house(home.settings_file, home.butler_files())
    return replace(house, server=override_server(house.server, given))


def _first_token(home: "Home", house: "HouseSettings") -> tuple[str, str] | None:
    """A token for the first butler, made only in a home that never had one."""
    from butlers.host.tokens import TokenStore

    if home.tokens_file.exists():
        return None
    name, settings = next(iter(house.butlers.items()))
    _, token = TokenStore(home.tokens_file).create(name, settings.butler.tenant, "first start")
    return name, token


async def _serve(home: "Home", house: "HouseSettings", token: tuple[str, str] | None) -> None:
    from butlers.host.daemon import run

    await run(home, house, lambda running: _welcome(running, token))


def _welcome(running: "Running", token: tuple[str, str] | None) -> None:
    typer.echo(f"Butlers are up at {running.url}   (Ctrl-C stops them)")
    for name, addresses in running.butlers.items():
        typer.echo(f"  {name}: {addresses['mcp']}")
    if token:
        name, secret = token
        typer.echo("")
        typer.echo(f"A token for {name}, shown this once:")
        typer.echo(f"  export BUTLER_TOKEN={secret}")
        typer.echo("")
        typer.echo("Give an agent its memory, for example in Claude Code:")
        typer.echo(
            f"  claude mcp add --transport http {name} {running.butlers[name]['mcp']} "
            '--header "Authorization: Bearer $BUTLER_TOKEN"'
        )
    else:
        typer.echo("Tokens: butlers token new --butler NAME --tenant default")
