"""`butlers connect` and `butlers disconnect`: a butler for the agents people already use."""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from butlers.doors.cli.options import ButlerOption, HomeOption

if TYPE_CHECKING:
    from butlers.butler.home import Home
    from butlers.sessions.agent_files import Change
    from butlers.sessions.connections import Client, Connection, Places


class Agent(StrEnum):
    """What a butler can be connected to."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    MCP_JSON = "mcp-json"


class For(StrEnum):
    """Whose settings are changed."""

    PROJECT = "project"
    USER = "user"


AgentArgument = Annotated[
    Agent, typer.Argument(help="The agent; mcp-json prints a snippet for any other client.")
]
ScopeOption = Annotated[For, typer.Option(help="This project's settings, or your own.")]
ProjectOption = Annotated[
    Path | None, typer.Option("--project", help="The project's directory [default: this one].")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")]
PrintOption = Annotated[bool, typer.Option("--print", help="Show it and write nothing.")]

_NEXT = {
    Agent.CLAUDE_CODE: (
        "Claude Code reads this when a session starts; it asks once whether it may use the "
        "project's MCP server.",
    ),
    Agent.CODEX: (
        "Codex runs a new hook only after you looked at it: start codex, type /hooks and trust "
        "the three of butlers-hook.",
        "Settings of a project count only where the project is trusted; codex asks when it starts.",
    ),
}
_ALWAYS = "Hooks reach the butler while `butlers up` runs; otherwise they do nothing."


def connect(
    agent: AgentArgument,
    butler: ButlerOption = "general",
    scope: ScopeOption = For.PROJECT,
    project: ProjectOption = None,
    yes: YesOption = False,
    show: PrintOption = False,
    home: HomeOption = None,
) -> None:
    """Give an agent a memory: register a butler's MCP server and the hooks of its sessions.

    What will be written is shown first; what is there is kept; doing it again changes nothing.
    """
    from butlers.sessions.connections import connecting

    place, connection = _connection(home, butler)
    if agent is Agent.MCP_JSON:
        typer.echo(json.dumps(connection.snippet(), indent=2))
        return
    changes = connecting(connection, *_target(agent, scope, project))
    if not _agreed(changes, yes, show, "Write this?"):
        return
    _give_token(place, butler)
    for change in changes:
        change.apply()
    typer.echo(f"{agent} has butler {butler} now.")
    for line in (*_NEXT[agent], _ALWAYS):
        typer.echo(f"  {line}")


def disconnect(
    agent: AgentArgument,
    butler: ButlerOption = "general",
    scope: ScopeOption = For.PROJECT,
    project: ProjectOption = None,
    yes: YesOption = False,
    show: PrintOption = False,
    home: HomeOption = None,
) -> None:
    """Take back what `butlers connect` wrote; the memories stay."""
    from butlers.butler.home import Home
    from butlers.errors import InvalidInput
    from butlers.sessions.connections import Connection, disconnecting

    if agent is Agent.MCP_JSON:
        raise InvalidInput("agent: found mcp-json, which writes nothing; valid: claude-code, codex")
    connection = Connection(butler, Home.locate(home).root)
    changes = disconnecting(connection, *_target(agent, scope, project))
    if not _agreed(changes, yes, show, "Remove this?"):
        return
    for change in changes:
        change.apply()
    typer.echo(f"{agent} no longer has butler {butler}.")


def _connection(home: Path | None, butler: str) -> "tuple[Home, Connection]":
    from butlers.butler.home import Home
    from butlers.doors.cli.options import known_butler
    from butlers.sessions.connections import Connection

    place = Home.locate(home)
    if not place.butler_names():
        place.ensure_general()
    known_butler(place, butler)
    return place, Connection(butler, place.root)


def _target(agent: Agent, scope: For, project: Path | None) -> "tuple[Client, Places]":
    from butlers.sessions.connections import Client, Scope, places

    client = Client(agent)
    return client, places(client, Scope(scope), (project or Path.cwd()).absolute())


def _agreed(changes: "Sequence[Change]", yes: bool, show: bool, question: str) -> bool:
    """Show what will change; whether to go ahead."""
    needed = [change for change in changes if change.is_needed]
    for change in needed:
        typer.echo(change.diff())
    if not needed:
        typer.echo("Nothing to change: it is as it should be.")
        return not show
    if show:
        return False
    if not yes and not typer.confirm(question):
        typer.echo("Nothing was changed.")
        raise typer.Exit(1)
    return True


def _give_token(home: "Home", butler: str) -> None:
    from butlers.butler.butler import butler_settings
    from butlers.butler.hook_token import ensure_hook_token

    ensure_hook_token(home, butler, butler_settings(home, butler).butler.tenant)
