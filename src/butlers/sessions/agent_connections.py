"""Giving a butler to Claude Code and Codex: what is written where, and how it is taken back."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from butlers.hook import EVENTS, LOW_TRUST
from butlers.sessions.agent_files import FileChange, json_change, table, toml_change

# The hook gives up by itself before; Codex allows no more at the end of a session.
HOOK_TIMEOUT_SECONDS = 3
_HOOK_PROGRAM, _HOOK_MODULE = "butlers-hook", "butlers.hook"


class Client(StrEnum):
    """The agents whose settings we know how to change."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"


_SERVERS: Mapping[Client, tuple[str, Callable[[Path, Callable[[Any], None]], FileChange]]] = {
    Client.CLAUDE_CODE: ("mcpServers", json_change),
    Client.CODEX: ("mcp_servers", toml_change),
}
"""Under which name each has its MCP servers, and how its file is changed."""


class Scope(StrEnum):
    """For whom a butler is registered: whoever works in a project, or one user everywhere."""

    PROJECT = "project"
    USER = "user"


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """The files of one client: where its MCP servers stand, and where its hooks."""

    servers: Path
    hooks: Path


def files_of(
    client: Client, scope: Scope, project: Path, environment: Mapping[str, str] = os.environ
) -> ClientFiles:
    """The files that a client reads."""
    user_home = Path(environment.get("HOME") or Path.home())
    match client, scope:
        case Client.CLAUDE_CODE, Scope.PROJECT:
            return ClientFiles(project / ".mcp.json", project / ".claude" / "settings.json")
        case Client.CLAUDE_CODE, _:
            chosen = environment.get("CLAUDE_CONFIG_DIR")
            settings = Path(chosen) if chosen else user_home / ".claude"
            servers = (Path(chosen) if chosen else user_home) / ".claude.json"
            return ClientFiles(servers, settings / "settings.json")
        case _, Scope.PROJECT:
            layer = project / ".codex"
        case _:
            layer = Path(environment.get("CODEX_HOME") or user_home / ".codex")
    return ClientFiles(layer / "config.toml", layer / "hooks.json")


@dataclass(frozen=True, slots=True)
class Connection:
    """One butler of one home, as an agent is told of it."""

    butler: str
    home: Path
    starts: bool = False
    """Whether its hooks start the butlers where they are not up."""
    low_trust: bool = False
    """Whether what the agent says counts for less, because strangers have a say in it."""

    @property
    def server_name(self) -> str:
        """The name of the MCP server, which agents show before its tools."""
        return f"butlers-{self.butler}"

    @property
    def server(self) -> dict[str, Any]:
        """How an agent starts the MCP server: a command needs no token and no daemon."""
        command, *arguments = program("butlers", "butlers")
        return {"command": command, "args": [*arguments, "mcp", *self._what, *self._trusted]}

    @property
    def hook(self) -> dict[str, Any]:
        """What an agent runs at its events; the token is in a private file of the home."""
        command = shlex.join([*program(_HOOK_PROGRAM, _HOOK_MODULE), *self._what, *self._started])
        return {"type": "command", "command": command, "timeout": HOOK_TIMEOUT_SECONDS}

    @property
    def _what(self) -> list[str]:
        return [self.butler, "--home", str(self.home)]

    @property
    def _started(self) -> list[str]:
        return [*(["--start"] if self.starts else []), *self._trusted]

    @property
    def _trusted(self) -> list[str]:
        return [LOW_TRUST] if self.low_trust else []

    def snippet(self) -> dict[str, Any]:
        """An `.mcp.json` for any client."""
        return {"mcpServers": {self.server_name: {"type": "stdio", **self.server}}}


def connecting(connection: Connection, client: Client, where: ClientFiles) -> list[FileChange]:
    """What connecting changes; nothing where it was done before."""
    servers, change = _SERVERS[client]

    def add_server(settings: Any) -> None:
        server = connection.snippet()["mcpServers"][connection.server_name]
        if client is Client.CODEX:
            del server["type"]
        table(settings, where.servers, servers)[connection.server_name] = server

    def add_hooks(settings: dict[str, Any]) -> None:
        for event in EVENTS:
            groups = table(settings, where.hooks, "hooks").setdefault(event, [])
            # Left where it is: Codex knows a hook that was trusted by its place.
            if connection.hook not in _handlers(groups):
                _remove(groups, connection)
                groups.append({"hooks": [connection.hook]})

    return [change(where.servers, add_server), json_change(where.hooks, add_hooks)]


def disconnecting(connection: Connection, client: Client, where: ClientFiles) -> list[FileChange]:
    """What takes back what connecting wrote, and nothing else."""
    servers, change = _SERVERS[client]

    def drop_server(settings: Any) -> None:
        _drop(settings, servers, connection.server_name)

    def drop_hooks(settings: dict[str, Any]) -> None:
        events: Any = settings.get("hooks")
        for event in EVENTS if isinstance(events, dict) else ():
            _remove(events.get(event), connection)
            if events.get(event) == []:
                _drop(settings, "hooks", event)

    return [change(where.servers, drop_server), json_change(where.hooks, drop_hooks)]


def _drop(settings: Any, name: str, key: str) -> None:
    """Take an entry out of a table, and the table with its last entry."""
    entries = settings.get(name)
    if isinstance(entries, dict) and key in entries:
        del entries[key]
        if not entries:
            del settings[name]


def _handlers(groups: Any) -> list[Any]:
    return [
        handler
        for group in groups
        if isinstance(group, dict) and isinstance(group.get("hooks"), list)
        for handler in group["hooks"]
    ]


def _remove(groups: Any, connection: Connection) -> None:
    """Take our handlers out of an event's groups, and groups that held nothing else."""
    if not isinstance(groups, list):
        return
    for group in [group for group in groups if _handlers([group])]:
        kept = [one for one in group["hooks"] if not _is_ours(one, connection.butler)]
        if not kept:
            groups.remove(group)
        elif len(kept) < len(group["hooks"]):
            group["hooks"] = kept


def _is_ours(handler: Any, butler: str) -> bool:
    """Whether a handler runs our hook for this butler, of whichever installation or home."""
    command = handler.get("command") if isinstance(handler, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    return any(
        following == butler and (word == _HOOK_MODULE or os.path.basename(word) == _HOOK_PROGRAM)
        for word, following in pairwise(words)
    )


def program(script: str, module: str) -> list[str]:
    """How to run a program of this installation from anywhere."""
    beside = Path(sys.executable).with_name(script)
    if beside.exists():
        return [str(beside)]
    # Without -P the directory an agent works in could offer modules of its own.
    return [sys.executable, "-P", "-m", module]
