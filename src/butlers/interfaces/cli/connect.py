"""`butlers connect` and `butlers disconnect`: a butler for the agents people already use."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from butlers.interfaces.cli.homes import typed
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    LowTrustOption,
    home_of,
    inhabited,
    located,
)
from butlers.interfaces.cli.tables import show_json

if TYPE_CHECKING:
    from butlers.sessions.agent_connections import Client, ClientFiles, Connection
    from butlers.sessions.agent_files import FileChange
    from butlers.sessions.catch_up import Connected


Agent = Literal["claude-code", "codex", "mcp-json"]
For = Literal["project", "user"]
AgentArgument = Annotated[
    Agent, typer.Argument(help="The agent; mcp-json prints a snippet for any other client.")
]
ScopeOption = Annotated[For, typer.Option(help="This project's settings, or your own.")]
ProjectOption = Annotated[
    Path | None, typer.Option("--project", help="The project's directory [default: this one].")
]
StartOption = Annotated[
    bool, typer.Option("--start", help="Let the hooks start the butlers where they are not up.")
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
        "all of butlers-hook.",
        "Settings of a project count only where the project is trusted; codex asks when it starts.",
    ),
}
_ALWAYS = (
    "What a session leaves is kept in any case; what is known it is told while the butlers are up."
)
_TRIES = 4
_OFFER = (
    "No language model reads what sessions leave. --consolidate agent lets this agent do it with "
    "its own model, --consolidate runtime lets the butler ask its command line."
)
_RESTART = "A running butler reads its settings anew after `butlers stop` and `butlers up`."


def connect(
    agent: AgentArgument,
    butler: ButlerOption = "general",
    scope: ScopeOption = "project",
    project: ProjectOption = None,
    start: StartOption = False,
    yes: YesOption = False,
    show: PrintOption = False,
    consolidate: ConsolidateOption = None,
    low_trust: LowTrustOption = False,
    home: HomeOption = None,
) -> None:
    """Give an agent a memory: register a butler's MCP server and the hooks of its sessions.

    What will be written is shown first; what is there is kept; doing it again changes nothing.
    """
    from butlers.host.home import butler_settings
    from butlers.host.own_tokens import ensure_hook_token
    from butlers.sessions.agent_connections import Connection, connecting
    from butlers.sessions.catch_up import ConnectionFile

    inhabited(home)
    place = home_of(butler, home)
    connection = Connection(butler, place.root, start, low_trust)
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
    ConnectionFile(place.connections_file).add(_record(connection, agent, scope, project))
    typer.echo(f"{agent} has butler {butler} now.")
    settings = butler_settings(place, butler)
    offer = () if settings.runtime.kind != "none" or settings.mcp.consolidate else (_OFFER,)
    restart = (_RESTART,) if consolidate is not None else ()
    keep_up = f"To keep them up: {typed(place, 'service', 'install')}"
    for line in (*_NEXT[agent], _ALWAYS, keep_up, *offer, *restart, _tried_out(connection)):
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
    from butlers.sessions.agent_connections import Connection, disconnecting
    from butlers.sessions.catch_up import ConnectionFile

    if agent == "mcp-json":
        raise InvalidInput("agent: found mcp-json, which writes nothing; valid: claude-code, codex")
    place = located(home)
    connection = Connection(butler, place.root)
    changes = disconnecting(connection, *_target(agent, scope, project))
    if not _agreed(changes, yes, show, "Remove this?"):
        return
    for change in changes:
        change.apply()
    ConnectionFile(place.connections_file).remove(_record(connection, agent, scope, project))
    typer.echo(f"{agent} no longer has butler {butler}.")


def _reading(file: Path, agent: Agent, reader: Reader) -> "FileChange":
    """What lets an agent, or its command line, read what waits."""
    from butlers.sessions.agent_files import table, toml_change

    def edit(settings: Any) -> None:
        if reader == "agent":
            table(settings, file, "mcp")["consolidate"] = True
        else:
            table(settings, file, "runtime")["kind"] = "codex" if agent == "codex" else "claude"

    return toml_change(file, edit)


def _target(agent: Agent, scope: For, project: Path | None) -> "tuple[Client, ClientFiles]":
    from butlers.sessions.agent_connections import Client, Scope, files_of

    client = Client(agent)
    return client, files_of(client, Scope(scope), (project or Path.cwd()).absolute())


def _record(
    connection: "Connection", agent: Agent, scope: For, project: Path | None
) -> "Connected":
    from butlers.clock import utc_now
    from butlers.sessions.agent_connections import Client, Scope
    from butlers.sessions.catch_up import connected

    where = (project or Path.cwd()).absolute()
    return connected(connection, Client(agent), Scope(scope), where, utc_now())


def _tried_out(connection: "Connection") -> str:
    """How the hook does, tried as an agent would; the first real session then finds it warm."""
    import json
    import shlex
    import subprocess
    import time

    from butlers.hook import CONNECTING

    event = {"hook_event_name": "SessionStart", "session_id": CONNECTING, "source": CONNECTING}
    for _ in range(_TRIES):
        started = time.monotonic()
        command = shlex.split(connection.hook["command"])
        done = subprocess.run(
            command, input=json.dumps(event), capture_output=True, text=True, check=False
        )
        if done.stdout.startswith("{") or not done.stdout:
            seconds = time.monotonic() - started
            return f"Tried out: a session is told what is known in {seconds:.1f} s."
        if "no answer" not in done.stdout and "too long" not in done.stdout:
            break
    return f"Tried out, and a session would start without memory: {done.stdout.strip()}"


def _agreed(changes: "Sequence[FileChange]", yes: bool, show: bool, question: str) -> bool:
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
