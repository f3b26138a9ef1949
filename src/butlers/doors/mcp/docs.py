"""The reference of all tools, written from what a butler serves."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp.server.mcpserver.tools import Tool

from butlers.butler.registry import KNOWN
from butlers.doors.mcp.server import ButlerMCP
from butlers.module import Surroundings

HEAD = """\
# Tools

<!-- Written by `python -m butlers.doors.mcp.docs docs/tools.md`, and checked. -->

What a butler serves over MCP, at `/butlers/<name>/mcp` with a token or with `butlers mcp <name>`
over standard input and output. Defaults that are settings show their own defaults here.

- **Who.** A caller sees the memories of one tenant, the one its token is for; without a token
  (standard input and output) it is the butler's own tenant. No argument changes that.
- **Results** are structured. A tool that returns an object returns it as it is; lists, texts and
  what may be null are under `result`.
- **Lineage.** With `request_context` `{"request_id": "…"}` the id stands in every event of the
  call, and comes back as `request_id` beside the result and in `_meta`.
- **Errors** are tool errors in one sentence: the argument, what was found, what is valid. Nothing
  was changed then. An argument that a tool does not know is refused.
"""


def tools_markdown() -> str:
    """The whole reference."""
    return "\n".join([HEAD, *(line for name in KNOWN for line in _chapter(name))])


def _chapter(module: str) -> Iterator[str]:
    tools = KNOWN[module](Surroundings("general")).tools()
    yield from (
        f"## Module `{module}`",
        "",
        f"Served where `modules.{module}.enabled` is true.",
        "",
    )
    for tool in ButlerMCP("general", tools).served_tools():
        yield from _section(tool)


def _section(tool: Tool) -> Iterator[str]:
    yield from (f"### `{tool.name}`", "", tool.description, "")
    yield from ("| parameter | type | default | meaning |", "|---|---|---|---|")
    required = tool.parameters.get("required", [])
    for name, schema in tool.parameters["properties"].items():
        default = "required" if name in required else f"`{json.dumps(schema.get('default'))}`"
        yield f"| `{name}` | {_kind(schema)} | {default} | {schema.get('description', '')} |"
    yield from ("", *_result(tool.output_schema or {}), "")


def _result(schema: dict[str, Any]) -> Iterator[str]:
    known = schema.get("$defs", {})
    if list(schema["properties"]) != ["result"]:
        yield from ("Result:", "", *_keys(schema, known))
        return
    result = schema["properties"]["result"]
    yield f"Result: {_kind(result, known)}"
    for inner in _models(result, known):
        yield from ("", f"{inner['title']}: {inner['description']}", "", *_keys(inner, known))


def _keys(schema: dict[str, Any], known: dict[str, Any]) -> Iterator[str]:
    yield from ("| key | type | meaning |", "|---|---|---|")
    for name, key in schema["properties"].items():
        yield f"| `{name}` | {_kind(key, known)} | {key.get('description', '')} |"
        for model in _models(key, known):
            for inner, value in model["properties"].items():
                meaning = value.get("description", "")
                yield f"| `{name}.{inner}` | {_kind(value, known)} | {meaning} |"


def _models(schema: dict[str, Any], known: dict[str, Any]) -> list[dict[str, Any]]:
    """The object types that a value is made of."""
    parts = [schema, schema.get("items", {}), *schema.get("anyOf", [])]
    return [known[part["$ref"].rsplit("/", 1)[1]] for part in parts if "$ref" in part]


def _kind(schema: dict[str, Any], known: dict[str, Any] | None = None) -> str:
    """A type in words."""
    if "$ref" in schema:
        return str((known or {})[schema["$ref"].rsplit("/", 1)[1]]["title"])
    if "enum" in schema:
        return ", ".join("null" if word is None else f"`{word}`" for word in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(one, known) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'], known)}"
    return str(schema.get("type", "any"))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(tools_markdown(), "utf-8")
