"""Write the reference of every interface from the operations.

`make docs` calls this. In a page with hand-written text, only what
stands between the two marks is replaced.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from uuid import UUID

import typer
from mcp.server.mcpserver.tools import Tool
from pydantic import AwareDatetime

from butlers.host.registry import KNOWN
from butlers.interfaces import methods as methods_module
from butlers.interfaces.cli import app
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from butlers.interfaces.methods import offered, signature_of
from butlers.module import ButlerEnvironment, Module
from butlers.operation import Operation, Toolset

_MARKS = "<!-- made from the operations -->", "<!-- until here -->"


def tools() -> str:
    """Describe every tool: its parameters and its result."""
    return "\n".join(line for name in KNOWN for line in _chapter(name))


def _chapter(name: str) -> Iterator[str]:
    module = KNOWN[name](ButlerEnvironment("general"))
    yield from (
        f"## Module `{name}`",
        "",
        f"Served where `modules.{name}.enabled` is true.",
        "",
    )
    by_tool = {operation.tool: operation for operation in module.operations}
    for tool in ButlerMCP("general", [module], toolset=Toolset.ALL).tools.values():
        yield from _tool(tool, by_tool[tool.name])


def _tool(tool: Tool, operation: Operation) -> Iterator[str]:
    yield from (f"### `{tool.name}`", "", f"*{operation.toolset}, {operation.effect}*", "")
    yield from (tool.description, "")
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
    """Return the object types that a value consists of."""
    parts = [schema, schema.get("items", {}), *schema.get("anyOf", [])]
    return [known[part["$ref"].rsplit("/", 1)[1]] for part in parts if "$ref" in part]


def _kind(schema: dict[str, Any], known: dict[str, Any] | None = None) -> str:
    """Describe a type in words."""
    if "$ref" in schema:
        return str((known or {})[schema["$ref"].rsplit("/", 1)[1]]["title"])
    if "enum" in schema:
        return ", ".join("null" if word is None else f"`{word}`" for word in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(one, known) for one in schema["anyOf"])
    if isinstance(schema.get("type"), list):
        return " or ".join(_kind({**schema, "type": one}, known) for one in schema["type"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'], known)}"
    return str(schema.get("type", "any"))


def routes() -> str:
    """List every route below `/api/butlers/{name}`."""
    return "\n".join(["| route | what it does |", "|---|---|", *_routes()])


def _routes() -> Iterator[str]:
    for module, operation in _operations():
        below = "/memory" if module.name == "memory" else ""
        for route in operation.routes:
            yield f"| {route.method} `{below}{route.path}` | {operation.headline} |"


def _operations() -> Iterator[tuple[type[Module], Operation]]:
    for module in KNOWN.values():
        for operation in module.operations:
            yield module, operation


def methods() -> str:
    """List every method of a memory."""
    return "\n".join(
        ["| method | what it does |", "|---|---|", *(_method(one) for one in offered())]
    )


def _method(operation: Operation) -> str:
    signature = signature_of(operation)
    parameters = [one for name, one in signature.parameters.items() if name != "self"]
    by_name = inspect.Parameter.KEYWORD_ONLY
    placed = ", ".join(_parameter(one) for one in parameters if one.kind is not by_name)
    named = ", ".join(_parameter(one) for one in parameters if one.kind is by_name)
    arguments = ", *, ".join(filter(None, (placed, named))) if placed else named and f"*, {named}"
    answer = type_name(operation.result)
    return f"| `{operation.name}({arguments})` → `{answer}` | {operation.headline} |".replace(
        " | None", " or None"
    )


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return parameter.name
    default = parameter.default
    return (
        f"{parameter.name}={str(default)!r}"
        if isinstance(default, str)
        else (f"{parameter.name}={default!r}")
    )


def type_name(kind: Any) -> str:
    """Format a type as in source code."""
    if get_origin(kind) is Annotated:
        return type_name(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(type_name(part) for part in get_args(kind))
    if get_args(kind):
        inner = ", ".join(type_name(part) for part in get_args(kind))
        return f"{get_origin(kind).__name__}[{inner}]"
    return "None" if kind is type(None) else getattr(kind, "__name__", str(kind))


def stub() -> str:
    """Write the type stub of the methods."""
    return _STUB + "\n".join(map(_typed, offered())) + "\n"


_STUB = """\
# Written by `make docs`, and checked.
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from inspect import Signature
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers.memory.flows.batch import StoredBatch
from butlers.memory.flows.browse import Page
from butlers.memory.flows.consolidation.answer import EpisodeClaim
from butlers.memory.flows.consolidation.report import ConsolidationReport
from butlers.memory.flows.context import Context
from butlers.memory.flows.entity_merge import MergePreview, MergeReport
from butlers.memory.flows.forget import Forgotten
from butlers.memory.flows.lifecycle.episode_retention import CleanupReport
from butlers.memory.flows.recall import Recalled
from butlers.memory.flows.results import StoredEpisode, StoredFact, StoredRule
from butlers.memory.flows.undo_entities import Parted
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.policy.states import TimelineCounts
from butlers.operation import Operation

WIRE_FIELDS: dict[str, str]

def offered() -> list[Operation]: ...
def signature_of(operation: Operation) -> Signature: ...

@dataclass(frozen=True)
class Methods:
    handle: Memory
    lineage: Lineage
"""


def _typed(operation: Operation) -> str:
    arguments, by_name = ["self"], False
    for name, one in signature_of(operation).parameters.items():
        if name == "self":
            continue
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not by_name:
            arguments.append("*")
            by_name = True
        given = _given_type(name, one.annotation)
        arguments.append(f"{name}: {given}" + (" = ..." if one.default is not one.empty else ""))
    return (
        f"    async def {operation.name}(\n        "
        + ",\n        ".join(arguments)
        + f",\n    ) -> {type_name(operation.result)}: ..."
    )


def _given_type(name: str, kind: Any) -> str:
    """Return the type a caller may pass: str for enums, any sequence or mapping."""
    if get_origin(kind) is Annotated:
        return _given_type(name, get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(_given_type(name, part) for part in get_args(kind))
    if get_origin(kind) is list:
        return f"Sequence[{_given_type(name.removesuffix('s'), get_args(kind)[0])}]"
    if kind is Any or get_origin(kind) is dict:
        return "Mapping[str, Any]"
    if name.endswith("_id") and kind in (str, UUID):
        return "str | UUID"
    if kind is AwareDatetime:
        return "datetime"
    return "str" if isinstance(kind, type) and issubclass(kind, StrEnum) else type_name(kind)


def commands() -> str:
    """Print every command with its help."""
    root = typer.main.get_command(app)
    return "\n".join(_commands(root, "butlers"))


def _commands(command: Any, name: str, parent: Any = None) -> Iterator[str]:
    context = command.make_context(name.rpartition(" ")[2], [], parent, resilient_parsing=True)
    # A fixed width, independent of the terminal.
    context.terminal_width = context.max_content_width = 100
    if not hasattr(command, "list_commands"):
        yield from (f"### `{name}`", "", "```text", command.get_help(context).rstrip(), "```", "")
        return
    if parent is not None:
        yield from (f"## `{name}`", "", command.help or "", "")
        if command.invoke_without_command:
            yield from ("```text", command.get_help(context).rstrip(), "```", "")
    for inner in command.list_commands(context):
        found = command.get_command(context, inner)
        yield from _commands(found, f"{name} {inner}", context)


PAGES: dict[str, Callable[[], str]] = {
    "tools.md": tools,
    "api.md": routes,
    "python.md": methods,
    "cli.md": commands,
}


STUB = Path(methods_module.__file__).with_suffix(".pyi")


def filled(page: str, text: str) -> str:
    """Replace what stands between the marks of a page."""
    begin, end = _MARKS
    pattern = re.escape(begin) + r".*?" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n\n{text.strip()}\n\n{end}", page, flags=re.DOTALL)


def write(directory: Path, pages: Iterable[str] = PAGES) -> None:
    """Write every reference."""
    for name in pages:
        file = directory / name
        file.write_text(filled(file.read_text("utf-8"), PAGES[name]()), "utf-8")
    STUB.write_text(stub(), "utf-8")
