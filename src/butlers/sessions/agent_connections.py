"""Connect a butler to Claude Code and Codex: which settings to write where, and how to undo it."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from butlers.hook import EVENTS, LIGHT, LOW_TRUST
from butlers.sessions.agent_files import FileChange, json_change, table, toml_change

# The hook gives up by itself before; Codex allows no more at the end of a session.
HOOK_TIMEOUT_SECONDS = 3
# Only tools that run commands or change files; Codex reports failures by PostToolUse alone.
_TOOLS, _SHELL = "Bash|Edit|MultiEdit|Write|NotebookEdit|apply_patch", "Bash"
_HOOK_PROGRAM, _HOOK_MODULE = "butlers-hook", "butlers.hook"


class Client(StrEnum):
    """The agents whose settings we know how to change."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"


class _Layout(NamedTuple):
    """Where a client keeps its settings, and how the file of its MCP servers is changed."""

    variable: str
    directory: str
    servers: str
    change: Callable[[Path, Callable[[Any], None]], FileChange]
    failures: str
    """The event after a tool call that failed."""

    @property
    def matchers(self) -> dict[str, dict[str, str]]:
        """For each event that is connected, for which tools."""
        calls = {"PreToolUse": {"matcher": _TOOLS}, self.failures: {"matcher": _SHELL}}
        return {**dict.fromkeys(EVENTS, {}), **calls}


_LAYOUTS = {
    Client.CLAUDE_CODE: _Layout(
        "CLAUDE_CONFIG_DIR", ".claude", "mcpServers", json_change, "PostToolUseFailure"
    ),
    Client.CODEX: _Layout("CODEX_HOME", ".codex", "mcp_servers", toml_change, "PostToolUse"),
}


class Scope(StrEnum):
    """For whom a butler is registered: everyone who works in a project, or one user everywhere."""

    PROJECT = "project"
    USER = "user"


class ClientFiles(NamedTuple):
    """The file of a client that lists its MCP servers, and the one that lists its hooks."""

    servers: Path
    hooks: Path


def user_directory(client: Client, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory in which a client keeps this user's settings and transcripts."""
    layout = _LAYOUTS[client]
    user_home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get(layout.variable) or user_home / layout.directory)


def files_of(
    client: Client, scope: Scope, project: Path, environment: Mapping[str, str] = os.environ
) -> ClientFiles:
    """Return the settings files that a client reads."""
    layout, is_project = _LAYOUTS[client], scope is Scope.PROJECT
    own = project / layout.directory if is_project else user_directory(client, environment)
    if client is Client.CODEX:
        return ClientFiles(own / "config.toml", own / "hooks.json")
    if is_project:
        return ClientFiles(project / ".mcp.json", own / "settings.json")
    # Beside ~/.claude, but inside a directory that the user chose.
    servers = own if environment.get(layout.variable) else own.parent
    return ClientFiles(servers / ".claude.json", own / "settings.json")


@dataclass(frozen=True, slots=True)
class Connection:
    """One butler of one home, as the settings of an agent name it."""

    butler: str
    home: Path
    starts: bool = False
    """Whether its hooks start the daemon when it is not running."""
    low_trust: bool = False
    """Whether what the agent stores has low trust, because strangers can influence it."""

    @property
    def server_name(self) -> str:
        """The name of the MCP server, which agents show before its tools."""
        return f"butlers-{self.butler}"

    @property
    def server(self) -> dict[str, Any]:
        """The command with which an agent starts the MCP server; it needs no token, no daemon."""
        command, *arguments = program("butlers", "butlers")
        return {"command": command, "args": [*arguments, "mcp", *self._arguments(LIGHT)]}

    @property
    def hook(self) -> dict[str, Any]:
        """The command that an agent runs at its events; the token is in a file of the home."""
        arguments = self._arguments("--start") if self.starts else self._arguments()
        command = shlex.join([*program(_HOOK_PROGRAM, _HOOK_MODULE), *arguments])
        return {"type": "command", "command": command, "timeout": HOOK_TIMEOUT_SECONDS}

    def _arguments(self, *more: str) -> list[str]:
        trust = [LOW_TRUST] if self.low_trust else []
        return [self.butler, "--home", str(self.home), *more, *trust]

    def snippet(self) -> dict[str, Any]:
        """Return an `.mcp.json` for any client."""
        return {"mcpServers": {self.server_name: {"type": "stdio", **self.server}}}


def connecting(connection: Connection, client: Client, where: ClientFiles) -> list[FileChange]:
    """Return the changes that add the MCP server and the hooks; nothing if they are there."""
    layout = _LAYOUTS[client]

    def add_server(settings: Any) -> None:
        kind = {} if client is Client.CODEX else {"type": "stdio"}
        servers = table(settings, where.servers, layout.servers)
        servers[connection.server_name] = {**kind, **connection.server}

    def add_hooks(settings: dict[str, Any]) -> None:
        for event, matcher in layout.matchers.items():
            groups = table(settings, where.hooks, "hooks").setdefault(event, [])
            # Left in its position: by it Codex recognises a hook that the user trusted.
            if connection.hook not in _handlers(groups):
                _remove(groups, connection)
                groups.append({**matcher, "hooks": [connection.hook]})

    return [layout.change(where.servers, add_server), json_change(where.hooks, add_hooks)]


def disconnecting(connection: Connection, client: Client, where: ClientFiles) -> list[FileChange]:
    """Return the changes that remove what connecting wrote, and nothing else."""
    layout = _LAYOUTS[client]

    def drop_server(settings: Any) -> None:
        _drop(settings, layout.servers, connection.server_name)

    def drop_hooks(settings: dict[str, Any]) -> None:
        events: Any = settings.get("hooks")
        for event in layout.matchers if isinstance(events, dict) else ():
            _remove(events.get(event), connection)
            if events.get(event) == []:
                _drop(settings, "hooks", event)

    return [layout.change(where.servers, drop_server), json_change(where.hooks, drop_hooks)]


def _drop(settings: Any, name: str, key: str) -> None:
    """Remove an entry from a table, and the table with its last entry."""
    entries = settings.get(name)
    if isinstance(entries, dict) and key in entries:
        del entries[key]
        if not entries:
            del settings[name]


def _handlers(groups: Any) -> list[Any]:
    lists = [group.get("hooks") for group in groups if isinstance(group, dict)]
    return [handler for hooks in lists if isinstance(hooks, list) for handler in hooks]


def _remove(groups: Any, connection: Connection) -> None:
    """Remove our handlers from an event's groups, and groups that had no others."""
    if not isinstance(groups, list):
        return
    for group in [group for group in groups if _handlers([group])]:
        others = [hook for hook in group["hooks"] if not _is_ours(hook, connection.butler)]
        if others:
            group["hooks"] = others
        else:
            groups.remove(group)


def _is_ours(handler: Any, butler: str) -> bool:
    """Whether a handler runs our hook for this butler, from any installation or home."""
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
    """Return the command that runs a program of this installation from any directory."""
    beside = Path(sys.executable).with_name(script)
    if beside.exists():
        return [str(beside)]
    # Without -P the directory an agent works in could offer modules of its own.
    return [sys.executable, "-P", "-m", module]
