"""`butlers connect` and `butlers disconnect`: a butler for the agents people already use."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from butlers.doors.cli.options import ButlerOption, HomeOption, home_of, inhabited, located
from butlers.doors.cli.tables import show_json

if TYPE_CHECKING:
    from butlers.sessions.agent_files import Change
    from butlers.sessions.connections import Client, Places


Agent = Literal["claude-code", "codex", "mcp-json"]
For = Literal["project", "user"]
AgentArgument = Annotated[
    Agent, typer.Argument(help="The agent; mcp-json prints a snippet for any other client.")
]
ScopeOption = Annotated[For, typer.Option(help="This project's settings, or your own.")]
ProjectOption = Annotated[
    Path | None, typer.Option("--project", help="The project's directory [default: this one].")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")]
Reader = Literal["agent", "runtime"]
ConsolidateOption = Annotated[
    Reader | None,
    typer.Option(
        help="Who reads what sessions leave: the agent in its sessions, or its command line."
    ),
]
PrintOption = Annotated[bool, typer.Option("--print", help="Show it and write nothing.")]

_NEXT = {
    "claude-code": (
        "Claude Code reads this when a session starts; it asks once whether it may use the "
        "project's MCP server.",
    ),
    "codex": (
        "Codex runs a new hook only after you looked at it: start codex, type /hooks and trust "
        "the three of butlers-hook.",
        "Settings of a project count only where the project is trusted; codex asks when it starts.",
    ),
}
_OFFER = (
    "No language model reads what sessions leave. --consolidate agent lets this agent do it with "
    "its own model, --consolidate runtime lets the butler ask its command line."
)
_RESTART = "A running butler reads its settings anew after `butlers stop` and `butlers up`."
_ALWAYS = "Hooks reach the butler while `butlers up` runs; otherwise they do nothing."


def connect(
    agent: AgentArgument,
    butler: ButlerOption = "general",
    scope: ScopeOption = "project",
    project: ProjectOption = None,
    yes: YesOption = False,
    show: PrintOption = False,
    consolidate: ConsolidateOption = None,
    home: HomeOption = None,
) -> None:
    """Give an agent a memory: register a butler's MCP server and the hooks of its sessions.

    What will be written is shown first; what is there is kept; doing it again changes nothing.
    """
    from butlers.butler.butler import butler_settings
    from butlers.butler.tokens import ensure_hook_token
    from butlers.sessions.connections import Connection, connecting

    inhabited(home)
    place = home_of(butler, home)
    connection = Connection(butler, place.root)
    if agent == "mcp-json":
        show_json(connection.snippet())
        return
    changes = connecting(connection, *_target(agent, scope, project))
    if consolidate is not None:
        changes.append(_reading(place.butler_file(butler), agent, consolidate))
    if not _agreed(changes, yes, show, "Write this?"):
        return
    ensure_hook_token(place, butler, butler_settings(place, butler).butler.tenant)
    for change in changes:
        change.apply()
    typer.echo(f"{agent} has butler {butler} now.")
    settings = butler_settings(place, butler)
    offer = () if settings.runtime.kind != "none" or settings.mcp.consolidate else (_OFFER,)
    restart = (_RESTART,) if consolidate is not None else ()
    for line in (*_NEXT[agent], _ALWAYS, *offer, *restart):
        typer.echo(f"  {line}")


def disconnect(
    agent: AgentArgument,
    butler: ButlerOption = "general",
    scope: ScopeOption = "project",
    project: ProjectOption = None,
    yes: YesOption = False,
    show: PrintOption = False,
    home: HomeOption = None,
) -> None:
    """Take back what `butlers connect` wrote; the memories stay."""
    from butlers.errors import InvalidInput
    from butlers.sessions.connections import Connection, disconnecting

    if agent == "mcp-json":
        raise InvalidInput("agent: found mcp-json, which writes nothing; valid: claude-code, codex")
    connection = Connection(butler, located(home).root)
    changes = disconnecting(connection, *_target(agent, scope, project))
    if not _agreed(changes, yes, show, "Remove this?"):
        return
    for change in changes:
        change.apply()
    typer.echo(f"{agent} no longer has butler {butler}.")


def _reading(file: Path, agent: Agent, reader: Reader) -> "Change":
    """What lets an agent, or its command line, read what waits."""
    from butlers.sessions.agent_files import table, toml_change

    def edit(settings: Any) -> None:
        if reader == "agent":
            table(settings, file, "mcp")["consolidate"] = True
        else:
            table(settings, file, "runtime")["kind"] = "codex" if agent == "codex" else "claude"

    return toml_change(file, edit)


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
