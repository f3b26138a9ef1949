"""`butlers up`, `new`, `list`, `mcp` and `service`: make a home's butlers and serve them."""

import os
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from butlers.errors import ButlersError, Conflict
from butlers.interfaces.cli.options import (
    HomeOption,
    JsonOption,
    LowTrustOption,
    NameArgument,
    PrintOption,
    ensure_home,
    example,
    find_home,
    run,
)
from butlers.interfaces.cli.output import show_json, show_line
from butlers.interfaces.cli.status import NOT_UP

if TYPE_CHECKING:
    from collections.abc import Callable

    from butlers.host.home import Home
    from butlers.host.status import Running
    from butlers.interfaces.http_server import Pages
    from butlers.settings.files import HouseSettings

_ENDS = "90d"
service_app = typer.Typer(
    help="Keep the daemon running as a systemd or launchd service.", no_args_is_help=True
)


def up(
    context: typer.Context,
    home: HomeOption = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 picks a free one [default: 8900].")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow a --host that other machines can reach.")
    ] = False,
) -> None:
    """Start every butler of the home and serve them until Ctrl-C.

    An empty home gets one butler, `general`, and a token for it. If every butler uses an external
    database server, several processes can serve the home, each on its own port.
    """
    import asyncio
    from dataclasses import replace

    from butlers.host.status import alone, beside_others
    from butlers.logs import configure
    from butlers.settings.files import load_house, override_server

    located = find_home(home)
    located.ensure_general()
    options = {"host": host, "port": port, "allow_remote": allow_remote or None}
    house = load_house(located.settings_file, located.butler_files())
    given = {key: value for key, value in options.items() if value is not None}
    house = replace(house, server=override_server(house.server, given))
    several = all(butler.database.url for butler in house.butlers.values())
    with beside_others(located) if several else alone(located) as here:
        level = "warning" if sys.stderr.isatty() else ""  # a terminal gets our lines instead
        configure(house.server.log_level, log_file=here.log_file, shown=level)
        asyncio.run(_serve(here, house, *context.obj))


def new(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and underscores.")],
    description: Annotated[str, typer.Option(help="What the butler is for.")] = "",
    home: HomeOption = None,
) -> None:
    """Add a butler to the home. The next `butlers up` serves it."""
    located = find_home(home)
    file = located.create_butler(name, description)
    typer.echo(f"Created butler {name}: {file}")
    command = shell_command(located, "token", "new", "--butler", name, "--tenant", "default")
    typer.echo(f"Make a token for it: {command}")


def list_butlers(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List the butlers of the home."""
    files = {file.parent.name: str(file) for file in find_home(home).checked().butler_files()}
    if as_json:
        show_json([{"name": name, "file": file} for name, file in files.items()])
        return
    for name, file in files.items():
        typer.echo(f"{name}\t{file}")


def mcp(
    name: NameArgument = "general",
    low_trust: LowTrustOption = False,
    light: Annotated[
        bool, typer.Option("--light", help="Begin with six tools, and offer the rest on request.")
    ] = False,
    home: HomeOption = None,
) -> None:
    """Serve a butler's MCP tools on stdio. Use this as the command in an agent's configuration.

    No token is needed: the caller acts as the butler's configured tenant. While `butlers up` runs,
    calls are forwarded to it; otherwise this process serves them.
    """
    from butlers.interfaces.mcp.local_clients import serve_stdio

    run(serve_stdio(ensure_home(home), name, low_trust=low_trust, light=light), "warning")


async def _serve(
    home: "Home",
    house: "HouseSettings",
    pages: "Pages | None",
    run_command: "Callable[[list[str]], int]",
) -> None:
    from butlers.auth.sign_in import SignInLinks
    from butlers.interfaces import daemon
    from butlers.interfaces.cli.command_server import CommandServer

    # Tokens and links are made last: nobody would see those of a start that failed.
    async def welcome(running: "Running") -> None:
        links, token = SignInLinks(home.invitations_directory), await _first_token(home, house)
        # Whoever sets the home up may decide; later starts are not asked for by a person.
        link = links.create(may_decide=token is not None) if pages is not None else ""
        _welcome(home, running, link and running.url + link, token)
        for name in house.failed:
            typer.echo(f"butlers: {name} failed to start; see `butlers status`", err=True)

    await daemon.run(home, house, welcome, pages, CommandServer(home, run_command).serve)


async def _first_token(home: "Home", house: "HouseSettings") -> tuple[str, str] | None:
    """Make a token for the first butler, only in a home that never had any token."""
    from butlers.auth.token_grant import TokenGrant, expiry
    from butlers.auth.tokens import new_token
    from butlers.clock import utc_now
    from butlers.host.home_tokens import home_tokens

    (name, settings), now = next(iter(house.butlers.items())), utc_now()
    grant = TokenGrant(settings.butler.tenant, "first start", expires_at=expiry(_ENDS, now))
    record, token = new_token(name, grant, now)
    tokens = home_tokens(home)
    with suppress(ButlersError):  # of a butler whose database is away
        if not home.tokens_file.exists() and not await tokens.list_all():
            await tokens.keep(record)
            tokens.add([])  # so that the file shows it had one, even if revoked or shared
            return name, token
    return None


def _welcome(
    home: "Home", running: "Running", link: str, first_token: tuple[str, str] | None
) -> None:
    lines = [f"Butlers are up at {running.url}   (Ctrl-C stops them)"]
    lines += [f"  {name}: {served['mcp']}" for name, served in running.butlers.items()]
    lines += [""]
    if link:
        lines += ["Open the dashboard (the link works once, for ten minutes):", f"  {link}"]
        lines += ["Get another link later:", f"  {shell_command(home, 'open')}"]
    name, token = first_token or (next(iter(running.butlers)), None)
    if token:
        lines += [f"Token for programs that use {name}; it may write, ends in 90 days, shown once:"]
        lines += [f"  export BUTLER_TOKEN={token}"]
    butler = [] if name == "general" else ["--butler", name]
    lines += [
        "Connect Claude Code, in a project's directory (codex works the same way):",
        f"  {shell_command(home, 'connect', 'claude-code', *butler)}",
        "Make another token like it:",
        f"  {shell_command(home, 'token', 'new', '--butler', name, '--expires', _ENDS)}",
        "Then tell it something, and ask:",
        f"  {shell_command(home, 'remember', 'The office moved to Graz', *butler)}",
        f"  {shell_command(home, 'recall', 'where is the office?', *butler)}",
    ]
    typer.echo("\n".join(lines))


def shell_command(home: "Home", *arguments: str) -> str:
    """Write a `butlers` command for this home that works in any directory."""
    option = [] if home.is_default else ["--home", str(home.root)]
    return shlex.join([*_program(), *arguments, *option])


def _program() -> list[str]:
    """The program as it was started: by its name if PATH finds it, else by its path."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return [sys.executable, "-m", "butlers"]
    on_path = shutil.which("butlers")
    if on_path is not None and started.exists() and os.path.samefile(on_path, started):
        return ["butlers"]
    return [str(started.absolute())]


@service_app.command("install", epilog=example("butlers service install --print"))
def install_service(
    port: Annotated[
        int | None, typer.Option(help="Port to listen on [default: as set in butlers.toml].")
    ] = None,
    show: PrintOption = False,
    home: HomeOption = None,
) -> None:
    """Start the daemon now and at every login; no root needed.

    Run it again to update the service, for example after your PATH has changed.
    """
    from butlers.host import service
    from butlers.host.status import homes_served

    located = ensure_home(home)
    manager = service.manager_of(located, port)
    if show:
        typer.echo(f"# {manager.file}\n{manager.text}", nl=False)
        return
    if homes_served(located) and not service.is_running(manager):
        raise Conflict(
            f"the daemon of {located.root} was started by hand; run `butlers stop` first"
        )
    service.install(manager)
    show_line(f"service installed for {located.root}: {manager.file}")
    if manager.hint:
        show_line(manager.hint, indent=2)


@service_app.command("status", epilog=example("butlers service status"))
def service_status(home: HomeOption = None) -> None:
    """Show whether the service is installed and running; exits 3 if not."""
    from butlers.host import service

    manager = service.manager_of(find_home(home))
    if not manager.file.exists():
        show_line("not installed; run `butlers service install`")
        raise typer.Exit(NOT_UP)
    running = service.is_running(manager)
    show_line(f"{'running' if running else 'not running'}: {manager.file}")
    raise typer.Exit(0 if running else NOT_UP)


@service_app.command("uninstall", epilog=example("butlers service uninstall"))
def uninstall_service(home: HomeOption = None) -> None:
    """Stop and remove the service; the memories stay."""
    from butlers.host import service

    manager = service.manager_of(find_home(home))
    removed = service.uninstall(manager)
    show_line(f"removed {manager.file}" if removed else "the service is not installed")
