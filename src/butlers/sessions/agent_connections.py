"""Connect a butler to an agent: which settings to write where, and how to take them out again."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from butlers.errors import Conflict, InvalidInput, Unavailable
from butlers.hook import LIGHT, LOW_TRUST
from butlers.sessions.agent_files import FileChange, read, settings_change, table
from butlers.sessions.agents import Agent, load_agent

# The hook gives up by itself before; Codex allows no more at the end of a session.
HOOK_TIMEOUT_SECONDS = 3
_UNITS = {"s": 1, "ms": 1_000}
_HOOK_PROGRAM, _HOOK_MODULE = "butlers-hook", "butlers.hook"
_MCP_PROGRAM = "butlers"
# The agents whose hooks need no name: their contract is ours.
_NAMELESS = ("claude-code", "codex")
_SCRIPT = "#!/bin/sh\n# Written by `butlers connect`; `butlers disconnect` removes it.\nexec {}\n"


@dataclass(frozen=True, slots=True)
class Connection:
    """One butler of one home, as the settings of an agent name it."""

    butler: str
    home: Path
    starts: bool = False
    """Whether its hooks start the daemon when it is not running."""
    low_trust: bool = False
    """Whether what the agent stores has low trust, because strangers can influence it."""
    is_portable: bool = False
    """Whether it names programs and home as on any machine: for files that others share."""

    @property
    def server_name(self) -> str:
        """The name of the MCP server, which agents show before its tools."""
        return f"butlers-{self.butler}"

    @property
    def server(self) -> list[str]:
        """The command with which an agent starts the MCP server; it needs no token, no daemon."""
        return [*self._program(_MCP_PROGRAM, "butlers"), "mcp", *self._arguments(LIGHT)]

    def hook(self, agent: str) -> list[str]:
        """The command that an agent runs at its events; the token is in a file of the home."""
        named = [] if agent in _NAMELESS else ["--agent", agent]
        arguments = self._arguments(*(["--start"] if self.starts else []))
        return [*self._program(_HOOK_PROGRAM, _HOOK_MODULE), *arguments, *named]

    def filled(self, entry: Mapping[str, Any], agent: Agent) -> dict[str, Any]:
        """Return an entry of an agent's table with our commands in the places of their names."""
        unit = _UNITS[agent.table.get("hooks", {}).get("unit", "s")]
        program, *arguments = self.server
        words: dict[str, Any] = {"{program}": program, "{arguments}": arguments}
        words |= {
            "{command}": self.server,
            "{hook}": shlex.join(self.hook(agent.name)),
            "{server}": self.server_name,
        }
        words["{timeout}"] = HOOK_TIMEOUT_SECONDS * unit
        return {name: words.get(str(value), value) for name, value in entry.items()}

    def snippet(self) -> dict[str, Any]:
        """Return an `.mcp.json` for any client."""
        part = load_agent("mcp-json")
        entry = self.filled(part.table["mcp"]["entry"], part)
        return {part.table["mcp"]["key"]: {self.server_name: entry}}

    def _program(self, script: str, module: str) -> list[str]:
        return [script] if self.is_portable else program(script, module)

    def _arguments(self, *more: str) -> list[str]:
        home = [] if self.is_portable else ["--home", str(self.home)]
        return [self.butler, *home, *more, *([LOW_TRUST] if self.low_trust else [])]


class ConnectionFiles(NamedTuple):
    """Where an agent reads a connection; None where it has no such file."""

    servers: Path | None
    hooks: Path | None
    own: tuple[tuple[Path, Mapping[str, Any]], ...]
    """Files that are ours alone, and what the agent's table says of them."""


def files_of(agent: Agent, project: Path | None, server: str = "butlers") -> ConnectionFiles:
    """Return the files of a project, or without one of the user; InvalidInput if there are none."""
    own = agent.table.get("files", ())
    paths = tuple((agent.own_file(each, project, server), each) for each in own)
    found = ConnectionFiles(agent.file("mcp", project), agent.file("hooks", project), paths)
    if not any(found):
        raise InvalidInput(
            f"scope: {agent.table['title']} reads no settings of a project; use --scope user"
        )
    return found


def connecting(connection: Connection, agent: Agent, where: ConnectionFiles) -> list[FileChange]:
    """Return the changes that add the MCP server and the hooks; nothing if they are there."""

    def add(settings: Any, part: str, path: Path) -> None:
        own = agent.table[part]
        if part == "mcp":
            entry = connection.filled(own["entry"], agent)
            table(settings, path, own["key"])[connection.server_name] = entry
            return
        for name, value in own.get("beside", {}).items():
            settings.setdefault(name, value)
        for event, native in own["events"].items():
            entries = table(settings, path, "hooks").setdefault(native, [])
            if not isinstance(entries, list):
                raise Unavailable(f"{path}: hooks.{native} is not a list. Nothing was changed")
            _add_hook(entries, connection, agent, event)

    changes = _settings_changes(agent, where, add)
    return changes + [_own_change(connection, agent, *each) for each in where.own]


def disconnecting(connection: Connection, agent: Agent, where: ConnectionFiles) -> list[FileChange]:
    """Return the changes that remove what connecting wrote, and nothing else."""

    def drop(settings: Any, part: str, _: Path) -> None:
        own = agent.table[part]
        if part == "mcp":
            _drop(settings, own["key"], connection.server_name)
            return
        events: Any = settings.get("hooks")
        for native in own["events"].values() if isinstance(events, dict) else ():
            _remove(events.get(native), connection.butler)
            if events.get(native) == []:
                _drop(settings, "hooks", native)

    gone = [_own_removal(path, connection.butler) for path, _ in where.own]
    return _settings_changes(agent, where, drop) + gone


def _settings_changes(agent: Agent, where: ConnectionFiles, edit: Any) -> list[FileChange]:
    """Return one change a file, though it may hold both the MCP servers and the hooks."""

    def change(path: Path) -> FileChange:
        here = [
            part for part, file in (("mcp", where.servers), ("hooks", where.hooks)) if file == path
        ]

        def edit_all(settings: Any) -> None:
            for part in here:
                edit(settings, part, path)

        return settings_change(path, agent.table[here[-1]], edit_all)

    return [change(path) for path in dict.fromkeys(filter(None, where[:2]))]


def _add_hook(entries: Any, connection: Connection, agent: Agent, event: str) -> None:
    own = agent.table["hooks"]
    hook = connection.filled(own["entry"], agent)
    # Left in its position: by it Codex recognises a hook that the user trusted.
    if hook in _hooks(entries):
        return
    _remove(entries, connection.butler)
    matcher = {"matcher": own["matchers"][event]} if event in own.get("matchers", {}) else {}
    entries.append({**matcher, **hook} if own.get("flat") else {**matcher, "hooks": [hook]})


def _own_change(
    connection: Connection, agent: Agent, path: Path, own: Mapping[str, Any]
) -> FileChange:
    """Return the change that writes a file of ours; Conflict if somebody else's has its name."""
    before, hook = read(path), connection.hook(agent.name)
    text = _SCRIPT.format(shlex.join(hook))
    if "source" in own:
        text = Path(__file__).with_name("agents").joinpath(own["source"]).read_text("utf-8")
        home = "" if connection.is_portable else str(connection.home)
        words = {"@BUTLER@": connection.butler, "@HOME@": home, "@HOOK@": json.dumps(hook)}
        for name, word in words.items():
            text = text.replace(name, word)
    if before not in (None, text) and not _is_our_file(before, connection.butler):
        raise Conflict(f"{path} is a file of your own, so {agent.table['title']} is not connected")
    return FileChange(path, before, text, mode=0o755 if own.get("script") else 0o644)


def _own_removal(path: Path, butler: str) -> FileChange:
    text = read(path)
    return FileChange(path, text, None if _is_our_file(text, butler) else text)


def _is_our_file(text: str | None, butler: str) -> bool:
    """Whether a file is one that we wrote for this butler."""
    lines = (text or "").replace('", "', " ").replace('"', " ").splitlines()
    return any(_is_ours(line, butler) for line in lines)


def _drop(settings: Any, name: str, key: str) -> None:
    """Remove an entry from a table, and the table with its last entry."""
    entries = settings.get(name)
    if isinstance(entries, dict) and key in entries:
        del entries[key]
        if not entries:
            del settings[name]


def _hooks(entries: Any) -> list[dict[str, Any]]:
    """List the hooks of an event: entries of its list, or of the groups in it."""
    groups = [each for each in entries if isinstance(each, dict)] if entries else []
    inner = [
        hook for each in groups if isinstance(each.get("hooks"), list) for hook in each["hooks"]
    ]
    return [each for each in [*groups, *inner] if isinstance(each, dict)]


def _remove(entries: Any, butler: str) -> None:
    """Remove our hooks from an event's list, and groups that had no others."""
    for each in [*entries] if isinstance(entries, list) else ():
        own = [hook for hook in _hooks([each]) if _is_hook_of(hook, butler)]
        if own and isinstance(each.get("hooks"), list):
            each["hooks"] = [hook for hook in each["hooks"] if hook not in own]
        if own and not each.get("hooks"):
            entries.remove(each)


def _is_hook_of(hook: Any, butler: str) -> bool:
    return isinstance(hook, dict) and _is_ours(hook.get("command") or hook.get("bash"), butler)


def _is_ours(command: Any, butler: str) -> bool:
    """Whether a command runs our hook for this butler, from any installation or home."""
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
