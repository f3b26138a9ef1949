"""`butlers connect` and `butlers disconnect`: give an agent a butler's memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from butlers.errors import InvalidInput
from butlers.interfaces.cli.homes import shell_command
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    LowTrustOption,
    PrintOption,
    ensure_home,
    find_home,
)
from butlers.interfaces.cli.output import show_json

if TYPE_CHECKING:
    from butlers.sessions.agent_connections import Client, ClientFiles, Connection
    from butlers.sessions.agent_files import FileChange
    from butlers.sessions.catch_up import Connected


Agent = Literal["claude-code", "codex", "mcp-json"]
For = Literal["project", "user"]
AgentArgument = Annotated[
    Agent, typer.Argument(help="The agent; mcp-json prints a snippet for any other client.")
]
ScopeOption = Annotated[For, typer.Option(help="Write to the project's settings, or to your own.")]
ProjectOption = Annotated[
    Path | None, typer.Option("--project", help="The project's directory [default: this one].")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")]
Reader = Literal["agent", "runtime"]
_READER_HELP = "Who consolidates sessions: the agent itself, or its command line run by the butler."

_TRIES = 4


def connect(
    agent: AgentArgument,
    butler: ButlerOption = "general",
    scope: ScopeOption = "project",
    project: ProjectOption = None,
    start: Annotated[
        bool, typer.Option("--start", help="Let the hooks start the daemon if it is not running.")
    ] = False,
    yes: YesOption = False,
    show: PrintOption = False,
    consolidate: Annotated[Reader | None, typer.Option(help=_READER_HELP)] = None,
    low_trust: LowTrustOption = False,
    home: HomeOption = None,
) -> None:
    """Connect an agent: register a butler's MCP server and its session hooks.

    It shows the changes and asks before it writes them. Existing settings stay. Running it again
    changes nothing.
    """
    from butlers.host.home import butler_settings
    from butlers.host.home_tokens import ensure_hook_token
    from butlers.kernel.word_tables import load_tables
    from butlers.sessions.agent_connections import Connection, connecting
    from butlers.sessions.catch_up import ConnectionFile

    located = ensure_home(home).checked(butler)
    connection = Connection(butler, located.root, start, low_trust)
    if agent == "mcp-json":
        show_json(connection.snippet())
        return
    client, files, record = _target(connection, agent, scope, project)
    changes = connecting(connection, client, files)
    if consolidate is not None:
        changes.append(_consolidation_change(located.butler_file(butler), agent, consolidate))
    if not _agreed(changes, yes, show, "Write this?"):
        return
    ensure_hook_token(located, butler, butler_settings(located, butler).butler.tenant)
    for change in changes:
        change.apply()
    ConnectionFile(located.connections_file).add(record)
    typer.echo(f"{agent} is connected to butler {butler}.")
    settings = butler_settings(located, butler)
    words, is_read = load_tables(__file__), settings.runtime.kind != "none"
    lines = [*words["next"][agent], words["always"]]
    lines.append(f"To keep the daemon running: {shell_command(located, 'service', 'install')}")
    lines += [] if is_read or settings.mcp.consolidate else [words["offer"]]
    lines += [words["restart"]] if consolidate is not None else []
    for line in (*lines, _try_hook(connection)):
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
    """Remove what `butlers connect` wrote; the memories stay."""
    from butlers.sessions.agent_connections import Connection, disconnecting
    from butlers.sessions.catch_up import ConnectionFile

    if agent == "mcp-json":
        raise InvalidInput("agent: found mcp-json, which writes nothing; valid: claude-code, codex")
    located = find_home(home)
    connection = Connection(butler, located.root)
    client, files, record = _target(connection, agent, scope, project)
    changes = disconnecting(connection, client, files)
    if not _agreed(changes, yes, show, "Remove this?"):
        return
    for change in changes:
        change.apply()
    ConnectionFile(located.connections_file).remove(record)
    typer.echo(f"{agent} is no longer connected to butler {butler}.")


def _consolidation_change(file: Path, agent: Agent, reader: Reader) -> "FileChange":
    """The settings change that lets an agent, or its command line, consolidate."""
    from butlers.sessions.agent_files import table, toml_change

    def edit(settings: Any) -> None:
        if reader == "agent":
            table(settings, file, "mcp")["consolidate"] = True
        else:
            table(settings, file, "runtime")["kind"] = "codex" if agent == "codex" else "claude"

    return toml_change(file, edit)


def _target(
    connection: "Connection", agent: Agent, scope: For, project: Path | None
) -> "tuple[Client, ClientFiles, Connected]":
    """Return the agent, the files it reads, and the record of the connection."""
    from butlers.clock import utc_now
    from butlers.sessions.agent_connections import Client, Scope, files_of
    from butlers.sessions.catch_up import connected

    client, where = Client(agent), (project or Path.cwd()).absolute()
    record = connected(connection, client, Scope(scope), where, utc_now())
    return client, files_of(client, Scope(scope), where), record


def _try_hook(connection: "Connection") -> str:
    """Run the hook as an agent would and report it; the first real session then finds it warm."""
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
            return f"Hook tested: a session gets its context in {seconds:.1f} s."
        if "no answer" not in done.stdout and "too long" not in done.stdout:
            break
    return f"Hook tested: a session would start without memory: {done.stdout.strip()}"


def _agreed(changes: "Sequence[FileChange]", yes: bool, show: bool, question: str) -> bool:
    """Show the changes and ask; return whether to go ahead."""
    needed = [change for change in changes if change.is_needed]
    for change in needed:
        typer.echo(change.diff())
    if not needed:
        typer.echo("Nothing to change.")
        return not show
    if show:
        return False
    if not yes and not typer.confirm(question):
        typer.echo("Nothing was changed.")
        raise typer.Exit(1)
    return True
