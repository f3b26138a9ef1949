"""Make MCP tools and prompts from operations: arguments, results and schemas."""

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from butlers.module import Module
from butlers.operation import Detail, Operation, OperationEffect, Toolset

Perform = Callable[[Module, Operation, dict[str, Any]], Awaitable[Any]]

_SCORES = {"score_parts", "rrf_score", "semantic_rank", "keyword_rank", "similarity", "rank"}
"""What only programs read of a result; the text for a model goes without."""
_LINEAGE = 'e.g. {"request_id": "r-17"}, kept with each change.'
_TENANT = {
    "required": (str, Field(description="Your own tenant; any other is refused, naming yours.")),
    "optional": (
        str | None,
        Field(None, description="Your own tenant or nothing; any other is refused."),
    ),
    # Left out, or "default", it names none.
    "default": (
        str,
        Field("default", description="Your own tenant, which leaving it out means too."),
    ),
}


class Arguments(FuncMetadata):
    """A tool's arguments: text stays text even when it looks like JSON.

    A list or an object that a client sends as a string is parsed.
    """

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Parse strings only where the argument is a list or an object."""
        parsed = _structured_fields(self.arg_model)
        texts = {name: value for name, value in data.items() if name not in parsed}
        return super().pre_parse_json(data) | texts


@cache
def _structured_fields(model: type[BaseModel]) -> frozenset[str]:
    """Name the arguments that are lists or objects."""
    fields = model.model_fields.items()
    return frozenset(name for name, field in fields if _is_structured(field.annotation))


def make_tools(
    modules: Iterable[Module], toolset: Toolset, perform: Perform, opted: Collection[str] = ()
) -> list[Tool]:
    """Make the tools of a toolset, and those opted in, by setting or by name."""
    return [
        _tool(module, operation, perform)
        for module in modules
        for operation in module.operations
        if (toolset.holds(operation.toolset) or {operation.opt_in, operation.tool} & {*opted})
        and "mcp" not in operation.left_out
    ]


given_arguments: ContextVar[Collection[str]] = ContextVar("given_arguments", default=())
"""The arguments that a call names, even those with their default value."""


def _tool(module: Module, operation: Operation, perform: Perform) -> Tool:
    settings = tuple(map(module.default, operation.defaults.values()))
    schema, metadata = _schema_and_metadata(operation, settings)
    asks, fields = operation.input_model.model_fields, metadata.arg_model.model_fields
    is_wrapped = bool(operation.tool_text) or operation.may_find_nothing

    async def answer(**given: Any) -> CallToolResult:
        """Return the result as text for the model, and as structure for its program."""
        # An argument left out is left to the operation: its default may be a setting.
        named = {key for key in given_arguments.get() if key in asks and given.get(key) is not None}
        changed = {k: v for k, v in given.items() if k in named or v != fields[k].default}
        result = await perform(module, operation, changed)
        if operation.tool_text:
            result = result[operation.tool_text]
        text = _in_text(result, is_brief=given.get("detail") == Detail.BRIEF)
        is_whole = isinstance(result, dict) and not is_wrapped
        return CallToolResult(
            content=[TextContent(type="text", text=text)],
            structured_content=result if is_whole else {"result": result},
        )

    return Tool(
        fn=answer,
        name=operation.tool,
        title=None,
        description=operation.words,
        parameters=schema,
        fn_metadata=metadata,
        is_async=True,
        annotations=ToolAnnotations(
            read_only_hint=operation.effect is OperationEffect.READS,
            destructive_hint=operation.effect is OperationEffect.FINAL,
            open_world_hint=False,
        ),
    )


def _in_text(result: Any, *, is_brief: bool) -> str:
    if is_brief and isinstance(result, list):
        result = [{k: v for k, v in row.items() if k not in _SCORES} for row in result]
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


@cache
def _schema_and_metadata(
    operation: Operation, settings: tuple[Any, ...]
) -> tuple[dict[str, Any], Arguments]:
    """Make them once for all butlers with the same settings; that takes ten milliseconds."""
    arguments = _arguments(operation, dict(zip(operation.defaults, settings, strict=True)))
    schema = _concise(arguments.model_json_schema())
    schema["additionalProperties"] = False
    output = _output(operation)
    is_wrapped = output is not operation.output
    return schema, Arguments(arg_model=arguments, output_model=output, wrap_output=is_wrapped)


def _arguments(operation: Operation, defaults: Mapping[str, Any]) -> type[ArgModelBase]:
    """Make the model of a tool's arguments, with defaults from settings and the request's id."""
    fields: dict[str, Any] = {}
    known = operation.input_model.model_fields
    needed = [n for n in known if known[n].is_required() or n in operation.tool_needs]
    offered = [name for name in operation.fields if name not in operation.tool_without]
    for name in dict.fromkeys([*needed, *offered]):
        fields[name] = _argument(operation, defaults, name, known[name])
    if operation.tool_tenant:
        fields["tenant_id"] = _TENANT[operation.tool_tenant]
    fields["request_context"] = (dict[str, Any] | None, Field(None, description=_LINEAGE))
    return create_model(f"{operation.tool}Arguments", __base__=ArgModelBase, **fields)


def _argument(
    operation: Operation, defaults: Mapping[str, Any], name: str, info: FieldInfo
) -> tuple[Any, Any]:
    kind = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    default = info.default
    if name in operation.tool_needs:
        kind, default = _without_none(kind), ...
    elif name in defaults:
        kind, default = _without_none(kind), defaults[name]
    return kind, Field(default, description=info.description)


def _without_none(kind: Any) -> Any:
    parts = [part for part in get_args(kind) if part is not type(None)]
    return parts[0] if len(parts) == 1 and parts[0] is not kind else kind


def _output(operation: Operation) -> Any:
    """Return the model of a result; anything but an object is wrapped under `result`."""
    if operation.tool_text:
        return create_model(f"{operation.tool}Output", result=(str, ...))
    kind = operation.output
    if operation.may_find_nothing:
        kind = kind | None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return create_model(f"{operation.tool}Output", result=(kind, ...))


def _concise(schema: dict[str, Any]) -> dict[str, Any]:
    """Shorten a schema: no titles, and one type for an optional field."""
    fields = {name: _concise_field(field) for name, field in schema["properties"].items()}
    return {key: value for key, value in schema.items() if key != "title"} | {"properties": fields}


def _concise_field(field: dict[str, Any]) -> dict[str, Any]:
    concise = {key: value for key, value in field.items() if key != "title"}
    if concise.get("default", ...) is None:
        del concise["default"]  # not being required says so
    concise.pop("minLength", None)  # what is empty is refused by name
    choices = [choice for choice in field.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) != 1 or "type" not in choices[0]:
        return concise
    (choice,) = choices
    del concise["anyOf"]
    null = {"enum": [*choice["enum"], None]} if "enum" in choice else {}
    implied = {"minLength": choice.get("minLength"), "additionalProperties": True}
    bounds = {k: v for k, v in choice.items() if k not in implied or v != implied[k]}
    return {**bounds, "type": [choice["type"], "null"], **null, **concise}


def _is_structured(annotation: object) -> bool:
    """Whether an argument is a list or an object, optional or not."""
    if get_origin(annotation) is Annotated:
        return _is_structured(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return any(_is_structured(part) for part in get_args(annotation))
    return get_origin(annotation) in (list, dict)
