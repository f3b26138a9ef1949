"""`butlers agents` lists connections; `butlers connect --check` tries them as the agents would."""

import json
import subprocess
import textwrap
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from butlers.errors import InvalidInput
from butlers.interfaces.cli.options import HomeOption, JsonOption, find_home, with_butler
from butlers.interfaces.cli.output import on_terminal, show_json, show_table, when
from butlers.kernel.word_tables import load_tables

if TYPE_CHECKING:
    from butlers.db.postgres import Row
    from butlers.host.butler import Butler
    from butlers.host.home import Home
    from butlers.sessions.agent_connections import Connection
    from butlers.sessions.agents import Agent
    from butlers.sessions.catch_up import Connected, ConnectionFile

_TRIES, _WIDTH = 4, 80
_FIELDS = ("agent", "scope", "butler", "session_at", "memory_at")
_TITLES = ("agent", "scope", "butler", "last session", "last memory")


def agents(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """List the connected agents, with their last session and when memory last reached them."""
    from butlers.sessions.agents import load_agent
    from butlers.sessions.catch_up import latest_session

    located = find_home(home)
    records = connections(located).all()
    names = sorted({record.butler for record in records} & {*located.butler_names()})
    logs = {name: with_butler(name, home, _latest) for name in names}
    tables = {record.client: load_agent(record.client).table for record in records}
    rows = [
        {"agent": record.client, "scope": record.project or "user", "butler": record.butler}
        | latest_session(record, logs.get(record.butler, []))
        | {"limits": tables[record.client].get("limits", [])}
        for record in records
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(
            _TITLES, [[_cell(row[name]) for name in _FIELDS] for row in rows], wraps=("scope",)
        )
        show_lines(f"{name}: {each}" for name in tables for each in tables[name].get("limits", ()))
    else:
        typer.echo("No agent is connected. Connect one with `butlers connect`.")


async def _latest(butler: "Butler") -> "list[Row]":
    return await butler.session_log.latest(butler.settings.butler.tenant)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else when(value) or "–"


def connections(home: "Home") -> "ConnectionFile":
    """Return the connections of a home."""
    from butlers.sessions.catch_up import ConnectionFile

    return ConnectionFile(home.connections_file)


def show_lines(lines: Iterable[str]) -> None:
    """Print lines under what they belong to, wrapped on a terminal."""
    for line in lines:
        width = _WIDTH if on_terminal() else len(line) + 2
        typer.echo(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    "))


def check(home: "Home", name: str | None) -> bool:
    """Try each connection, or those of one agent; return whether memory arrives in all."""
    from butlers.sessions.agents import load_agent

    records = [each for each in connections(home).all() if name in (None, each.client)]
    if not records:
        raise InvalidInput(f"agent: {name or 'no agent'} is not connected; run `butlers connect`")
    results = list[bool]()
    for record in records:
        typer.echo(f"{record.client}, butler {record.butler}, {record.project or 'user'}:")
        lines = _check(home, record, load_agent(record.client))
        show_lines(line for line, _ in lines)
        results += [passed for _, passed in lines]
    return all(results)


def _check(home: "Home", record: "Connected", agent: "Agent") -> list[tuple[str, bool]]:
    """Return what was found out about a connection, line by line, and whether each is right."""
    from butlers.sessions.agent_connections import Connection, connecting, files_of

    project = Path(record.project) if record.project else None
    options = (record.starts, record.low_trust, project is not None)
    connection = Connection(record.butler, home.root, *options)
    where = files_of(agent, project, connection.server_name)
    changed = [each.path for each in connecting(connection, agent, where) if each.is_needed]
    lines = [(f"Changed since it was connected: {path}", False) for path in changed]
    hook = try_hook(connection, agent)
    lines += [(hook, "without memory" not in hook)]
    return lines + ([try_server(connection.server)] if "mcp" in agent.table else [])


def try_hook(connection: "Connection", agent: "Agent") -> str:
    """Run the hook as an agent would and report it; the first real session then finds it warm."""
    from butlers.hook import CONNECTING

    if not agent.has_hooks:
        return "No hook: this agent has memory by its tools alone."
    events = agent.table.get("hooks", {}).get("events", {})
    event = {"hook_event_name": events.get("SessionStart", "SessionStart"), "source": CONNECTING}
    event["session_id"] = CONNECTING
    for _ in range(_TRIES):
        started = time.monotonic()
        output = _run(connection.hook(agent.name), json.dumps(event))
        if output.startswith("{") or not output:
            seconds = time.monotonic() - started
            return f"Hook tested: a session gets its context in {seconds:.1f} s."
        if "no answer" not in output and "too long" not in output:
            break
    return f"Hook tested: a session would start without memory: {output.strip()}"


def try_server(command: Sequence[str]) -> tuple[str, bool]:
    """Start an MCP server as an agent would, and say whether it answers `initialize`."""
    started = time.monotonic()
    output = _run(command, load_tables(__file__, "connect.toml")["initialize"])
    if '"serverInfo"' in output:
        return f"MCP server tested: it answers in {time.monotonic() - started:.1f} s.", True
    return f"MCP server tested: it does not answer: {output[:200]!r}", False


def _run(command: Sequence[str], message: str) -> str:
    """Return what a program prints for a line on its standard input."""
    options: Any = {"capture_output": True, "text": True, "check": False, "timeout": 60}
    try:
        return str(subprocess.run(command, input=f"{message}\n", **options).stdout)
    except FileNotFoundError:
        return f"{command[0]} is not on the PATH; install butlers with pipx or uv tool"
    except subprocess.TimeoutExpired:
        return "no answer"
