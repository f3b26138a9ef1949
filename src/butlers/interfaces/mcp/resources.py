"""Resources, prompts, completion and log levels of a butler's MCP server, beside its tools."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_args

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from mcp.server.mcpserver.prompts import Prompt

from butlers.operation import Operation

Read = Callable[..., Awaitable[Any]]
"""Performs the operation of a tool for the caller, with its arguments by name."""
_JSON = "application/json"
_MOST = 50
_SHORTEST_ID = 6
_EPISODE = ("id", "created_at", "author", "origin", "content")


def make_prompt(operation: Operation, read: Read) -> Prompt:
    """Make the prompt of an operation; a person asks for it, an agent reads it."""

    async def text() -> str:
        return str((await read(operation.tool))["prompt"])

    return Prompt.from_function(text, operation.prompt, description=operation.headline)


class LogLevels:
    """Sends an agent on this machine what is logged of its calls, from the level it sets on."""

    def __init__(self, server: Server[Any]) -> None:
        """Let clients set it; over HTTP no connection remembers a level, so nothing is sent."""
        self._sent: Sequence[str] = ()
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set)

    async def _set(self, request: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
        levels = get_args(types.LoggingLevel)
        self._sent = () if request.request else levels[levels.index(params.level) :]
        return types.EmptyResult()

    async def send(self, context: Any, said: dict[str, Any]) -> None:
        """Send what is logged of a call if its level is wanted."""
        level: types.LoggingLevel = "info" if said["outcome"] == "ok" else "warning"
        if context is not None and level in self._sent:
            params = types.LoggingMessageNotificationParams(
                level=level, logger="butlers", data=said
            )
            await context.session.send_notification(types.LoggingMessageNotification(params=params))


class Resources:
    """What a session starts with, what is known of a name, and what a session said."""

    def __init__(self, server: MCPServer[Any], read: Read) -> None:
        """Offer them on a server, with a prompt and completion."""
        self._read = read
        server.resource("memory://context", mime_type="text/markdown")(self.context)
        server.resource("memory://entity/{name}", mime_type=_JSON)(self.entity)
        server.resource("memory://session/{id}", mime_type=_JSON)(self.session)
        about = "Read what is known about a person or thing."
        server.prompt("about", description=about)(self.entity)
        server.completion()(self.complete)  # type: ignore[no-untyped-call]

    async def context(self) -> str:
        """What a session starts with: where you left off, decisions, rules."""
        return str((await self._read("memory_context", trigger_prompt="", opening=True))["text"])

    async def entity(self, name: str) -> str:
        """What is known about a person or thing, by its name."""
        about = {"topic": name, "types": ["fact"], "limit": _MOST, "counted": False}
        return json.dumps(await self._read("memory_recall", **about), ensure_ascii=False)

    async def session(self, id: str) -> str:
        """What happened in a session, by its UUID."""
        rows = (await self._read("memory_list_episodes", session_id=id, limit=_MOST))["items"]
        episodes = [{key: row[key] for key in _EPISODE if row.get(key)} for row in rows]
        return json.dumps(episodes, ensure_ascii=False)

    async def complete(self, _: Any, argument: Any, __: Any) -> types.Completion:
        """Complete names of people and things, and ids of sessions that begin to be told."""
        begun, names = argument.value.lower(), list[str]()
        if argument.name == "name":
            rows = (await self._read("entity_list", state="active", name=begun or None))["items"]
            names = [row["canonical_name"] for row in rows]
        elif argument.name == "id" and len(begun) >= _SHORTEST_ID:
            rows = (await self._read("memory_list_episodes", limit=_MOST))["items"]
            names = [row["session_id"] or "" for row in rows]
        return types.Completion(
            values=sorted({name for name in names if begun in name.lower()} - {""})
        )
