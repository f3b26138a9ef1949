"""The MCP server of one agent connected by `butlers connect`: few tools first, more on request."""

from collections.abc import Collection, Sequence
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, InputRequiredResult
from mcp_types import Tool as MCPTool

from butlers.errors import InvalidInput
from butlers.interfaces.mcp.butler_mcp import ButlerMCP, failure
from butlers.kernel.word_tables import load_tables
from butlers.module import Module
from butlers.operation import Toolset, shortened

_LIGHT = load_tables(__file__)


class LightMCP(ButlerMCP):
    """Lists the tools of light.toml, which other tools answer, and others once asked for them.

    What it does not list can be called all the same.
    """

    lists_marks = False

    def make_tools(
        self, modules: Sequence[Module], toolset: Toolset, opted: Collection[str]
    ) -> list[Tool]:
        """Make the tools that answer; of others list at first only those opted in."""
        answering = {words["tool"] for words in _LIGHT.values()}
        tools = super().make_tools(modules, toolset, {*opted, *answering})
        self._listed = {t.name for t in tools if self._operations[t.name].opt_in in opted}
        return [*tools, Tool.from_function(self._more, "more_tools", structured_output=False)]

    async def list_tools(self) -> list[MCPTool]:
        """List the light tools, and the others that the client asked for."""
        known, light = {tool.name: tool for tool in await super().list_tools()}, []
        for name, words in _LIGHT.items():
            if (tool := known.get(words["tool"].format(kind="fact"))) is not None:
                light.append(tool.model_copy(update={"name": name, **words["listed"]}))
        return light + [tool for name, tool in known.items() if name in self._listed]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Any = None
    ) -> CallToolResult | InputRequiredResult:
        """Call the tool that answers; a light one returns text alone, as a model reads it."""
        if (words := _LIGHT.get(name)) is None:
            return await super().call_tool(name, arguments, context)
        kind, kinds = arguments.get("kind", ""), words.get("kinds")
        if kinds and kind not in kinds:
            found = f"kind: found {shortened(kind)}; valid are {', '.join(kinds)}"
            return failure(InvalidInput(found))
        given = {k: v for k, v in arguments.items() if k != "kind" or not kinds}
        given |= {"butler": self._butler} if kind == "episode" else {}
        result = await super().call_tool(words["tool"].format(kind=kind), given, context)
        if isinstance(result, CallToolResult):
            result.structured_content = None
        return result

    async def _more(self, context: Context, names: list[str] | None = None) -> str:
        """List the tools that are not listed; make those that are named available."""
        rest = {n: t for n, t in self.tools.items() if n not in _LIGHT.keys() | self._listed}
        if unknown := next((name for name in names or () if name not in self.tools), None):
            raise InvalidInput(f"names: found {shortened(unknown)}; valid are {', '.join(rest)}")
        if not names:
            return "\n".join(f"{n}: {t.description.splitlines()[0]}" for n, t in rest.items())
        self._listed |= set(names) - _LIGHT.keys()
        await context.session.send_tool_list_changed()
        await context.notify_tools_changed()
        return f"You can call {', '.join(names)} now."
