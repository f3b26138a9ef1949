"""`butlers connect` and `butlers disconnect`: give agents a butler's memory."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from butlers.errors import ButlersError, InvalidInput
from butlers.interfaces.cli.agents import check as check_connections
from butlers.interfaces.cli.agents import connections, show_lines, try_hook
from butlers.interfaces.cli.homes import shell_command
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    LowTrustOption,
    PrintOption,
    ensure_home,
    find_home,
)
from butlers.interfaces.cli.output import show_json, show_table

if TYPE_CHECKING:
    from butlers.host.home import Home
    from butlers.sessions.agent_connections import Connection
    from butlers.sessions.agent_files import FileChange
    from butlers.sessions.agents import Agent
    from butlers.sessions.catch_up import Connected


For = Literal["project", "user"]
AgentArgument = Annotated[
    str | None, typer.Argument(help="Which agent; a wrong name lists all [default: those found].")
]
ScopeOption = Annotated[
    For | None, typer.Option(help="Write to your own settings, or to a project's [default: user].")
]
ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", help="A project, to write in its settings [default: this one]."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")]
Reader = Literal["agent", "runtime"]
_NO_PATHS = (
    "scope: the files of a project are shared and name no path of this machine, so agents find the "
    "home by BUTLERS_HOME, which is not {home} here; set it, or use --scope user"
)
_MOST_NOTES = 3
_READER_HELP = "Who consolidates sessions: the agent itself, or its command line run by the butler."


@dataclass(frozen=True)
class _Order:
    """What was asked for, for any agent."""

    home: "Home"
    butler: str
    project: Path | None
    """The project to write in; None for the user's own settings."""
    starts: bool = False
    low_trust: bool = False
    yes: bool = False
    show: bool = False
    reader: Reader | None = None

    @property
    def connection(self) -> "Connection":
        """The connection; files of a project name no path of this machine."""
        from butlers.sessions.agent_connections import Connection

        shared = self.project is not None
        return Connection(self.butler, self.home.root, self.starts, self.low_trust, shared)


def connect(
    agent: AgentArgument = None,
    butler: ButlerOption = "general",
    scope: ScopeOption = None,
    project: ProjectOption = None,
    start: Annotated[
        bool, typer.Option("--start", help="Let the hooks start the daemon if it is not running.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Connect every agent found.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Try the hook and the MCP server as the agent would.")
    ] = False,
    yes: YesOption = False,
    show: PrintOption = False,
    consolidate: Annotated[Reader | None, typer.Option(help=_READER_HELP)] = None,
    low_trust: LowTrustOption = False,
    home: HomeOption = None,
) -> None:
    """Connect agents: register a butler's MCP server and its session hooks.

    Without a name it lists the agents found and offers to connect them. It shows the changes and
    asks before it writes them. Existing settings stay. Running it again changes nothing.
    """
    from butlers.sessions.agents import agent_names, load_agent

    if check:
        raise typer.Exit(0 if check_connections(find_home(home), agent) else 1)
    located = ensure_home(home).checked(butler)
    where = _project(scope, project)
    order = _Order(located, butler, where, start, low_trust, yes, show, consolidate)
    if agent is not None:
        if not _connect(order, load_agent(agent)):
            raise typer.Exit(1)
        return
    found = [each for each in map(load_agent, agent_names()) if each.is_found]
    _list(order, found)
    asks = every or sys.stdin.isatty()
    for each in found if asks else ():
        typer.echo(f"\n{each.table['title']}:")
        try:
            _connect(order, each)
        except ButlersError as error:  # the others are connected all the same
            show_lines([str(error)])
    if not asks:
        typer.echo("\nConnect one with `butlers connect NAME`, all with `butlers connect --all`.")


def disconnect(
    agent: Annotated[str, typer.Argument(help="The agent.")],
    butler: ButlerOption = "general",
    scope: ScopeOption = None,
    project: ProjectOption = None,
    yes: YesOption = False,
    show: PrintOption = False,
    home: HomeOption = None,
) -> None:
    """Remove what `butlers connect` wrote and give files their bytes back; the memories stay."""
    from butlers.sessions.agent_connections import disconnecting, files_of
    from butlers.sessions.agents import SNIPPET, load_agent
    from butlers.sessions.original_files import OriginalFiles

    known, located = load_agent(agent), find_home(home)
    if agent == SNIPPET:
        raise InvalidInput(f"agent: found {SNIPPET}, which writes nothing")
    order = _Order(located, butler, _project(scope, project), yes=yes, show=show)
    keys = [record.key for record in connections(located).all()]
    if scope is None and _record(order, known).key not in keys:
        here = replace(order, project=(project or Path.cwd()).absolute())
        order = here if _record(here, known).key in keys else order
    connection, record = order.connection, _record(order, known)
    originals = OriginalFiles(located.originals_directory)
    where = files_of(known, order.project, connection.server_name)
    found = disconnecting(connection, known, where)
    changes = [originals.given_back(change, record.key) for change in found]
    if not _agreed(changes, order, "Remove this?"):
        raise typer.Exit(0 if show else 1)
    originals.disconnect(changes, record.key)
    connections(located).remove(record)
    typer.echo(f"{agent} is no longer connected to butler {butler}.")


def _project(scope: For | None, project: Path | None) -> Path | None:
    """Return the project whose files are written; None for the user's own."""
    if scope == "user" or (scope is None and project is None):
        return None
    return (project or Path.cwd()).absolute()


def _record(order: _Order, agent: "Agent") -> "Connected":
    from butlers.clock import utc_now
    from butlers.sessions.catch_up import connected

    return connected(order.connection, agent, order.project, utc_now())


def _connect(order: _Order, agent: "Agent") -> bool:
    """Connect one agent; return whether that was agreed to."""
    from butlers.host.home import butler_settings
    from butlers.host.home_tokens import ensure_hook_token
    from butlers.sessions.agent_connections import connecting, files_of
    from butlers.sessions.agents import SNIPPET
    from butlers.sessions.original_files import OriginalFiles

    home, connection = order.home, order.connection
    tenant = butler_settings(home, order.butler).butler.tenant
    if agent.name == SNIPPET:
        show_json(connection.snippet())
        return order.show or ensure_hook_token(home, order.butler, tenant) or True
    if order.project is not None and home.root != find_home(None).root:
        raise InvalidInput(_NO_PATHS.format(home=home.root))
    record, where = _record(order, agent), files_of(agent, order.project, connection.server_name)
    changes = connecting(connection, agent, where)
    more = [] if order.reader is None else [_consolidation_change(order, agent)]
    if not _agreed([*changes, *more], order, "Write this?"):
        return order.show
    ensure_hook_token(home, order.butler, tenant)
    OriginalFiles(home.originals_directory).connect(changes, record.key)
    for change in more:
        change.apply()
    connections(home).add(record)
    typer.echo(f"{agent.name} is connected to butler {order.butler}.")
    show_lines([*_hints(order, agent), try_hook(connection, agent)])
    return True


def _hints(order: _Order, agent: "Agent") -> list[str]:
    """List what to know after an agent was connected."""
    from butlers.host.home import butler_settings
    from butlers.kernel.word_tables import load_tables

    settings, words = butler_settings(order.home, order.butler), load_tables(__file__)
    is_read = settings.runtime.kind != "none" or settings.mcp.consolidate
    service = f"To keep the daemon running: {shell_command(order.home, 'service', 'install')}"
    twice = [words["twice"].format(place=place) for place in _other_places(order, agent)]
    lines = [
        (agent.has_hooks, words["always"]),
        (order.project is not None, words["shared"]),
        (True, service),
        (not is_read, words["offer"] + words["offer_runtime"] * ("runtime" in agent.table)),
        (order.reader is not None, words["restart"]),
    ]
    notes = [words["notes"].format(place=place) for place in agent.memories()[:_MOST_NOTES]]
    known = [*notes, *agent.table["next"], *agent.table.get("limits", ()), *twice]
    return known + [line for is_true, line in lines if is_true]


def _other_places(order: _Order, agent: "Agent") -> list[str]:
    """List where else sessions of an agent are told of this butler."""
    found = [each for each in connections(order.home).all() if each.client == agent.name]
    return [
        each.project or "your own settings"
        for each in found
        if each.butler == order.butler and bool(each.project) != bool(order.project)
    ]


def _list(order: _Order, found: "Sequence[Agent]") -> None:
    """List the agents of this machine, and where each is connected."""
    where = dict[str, list[str]]()
    for record in connections(order.home).all():
        place = f"{record.butler} ({record.project or 'user'})"
        where.setdefault(record.client, []).append(place)
    rows = [(each.name, ", ".join(where.get(each.name, ["no"]))) for each in found]
    if rows:
        show_table(("agent", "connected"), rows, wraps=("connected",))
    else:
        typer.echo("No agent was found on this machine.")


def _consolidation_change(order: _Order, agent: "Agent") -> "FileChange":
    """The settings change that lets an agent, or its command line, consolidate."""
    from butlers.sessions.agent_files import table, toml_change

    file, kind = order.home.butler_file(order.butler), agent.table.get("runtime")
    if order.reader == "runtime" and kind is None:
        raise InvalidInput(f"consolidate: a butler cannot run the command line of {agent.name}")

    def edit(settings: Any) -> None:
        if order.reader == "agent":
            table(settings, file, "mcp")["consolidate"] = True
        else:
            table(settings, file, "runtime")["kind"] = kind

    return toml_change(file, edit)


def _agreed(changes: "Sequence[FileChange]", order: _Order, question: str) -> bool:
    """Show the changes and ask; return whether to go ahead."""
    needed = [change for change in changes if change.is_needed]
    for change in needed:
        typer.echo(change.diff())
    if not needed:
        typer.echo("Nothing to change.")
        return not order.show
    if order.show:
        return False
    if order.yes or typer.confirm(question):
        return True
    typer.echo("Nothing was changed.")
    return False
