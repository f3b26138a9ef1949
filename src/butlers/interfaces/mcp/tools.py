"""Operations as MCP tools: their arguments, their results, and how a call is answered."""

import json
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from butlers.errors import InvalidInput
from butlers.module import Module
from butlers.operation import Operation, OperationEffect, Toolset

Perform = Callable[[Module, Operation, dict[str, Any]], Awaitable[Any]]

_LINEAGE = 'Lineage, e.g. {"request_id": "r-17"}, kept with every change.'
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
    """A tool's arguments, in which text stays text even when it looks like JSON.

    Clients that send a list or an object as a string are understood all the same.
    """

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """The arguments, with strings parsed only where a string would not do."""
        fields = self.arg_model.model_fields
        parsed = {name for name, field in fields.items() if _holds_others(field.annotation)}
        kept = {name: value for name, value in data.items() if name not in parsed}
        return super().pre_parse_json(data) | kept


def served_tools(
    modules: Iterable[Module], toolset: Toolset, perform: Perform, opted: Container[str] = ()
) -> list[Tool]:
    """The tools of some modules that belong to a set of tools, and those opted in."""
    return [
        _tool(module, operation, perform)
        for module in modules
        for operation in module.operations
        if (toolset.holds(operation.toolset) or operation.opt_in in opted)
        and "mcp" not in operation.left_out
    ]


named: ContextVar[Collection[str]] = ContextVar("named", default=())
"""The arguments that a call names, be it with what they would be anyway."""


def served_prompts(
    modules: Iterable[Module], perform: Perform, opted: Container[str]
) -> list[Prompt]:
    """The prompts of what is opted in: asked for by a person, each carries what an agent reads."""
    return [
        _prompt(module, operation, perform)
        for module in modules
        for operation in module.operations
        if operation.prompt and operation.opt_in in opted
    ]


def _prompt(module: Module, operation: Operation, perform: Perform) -> Prompt:
    async def text() -> str:
        return str((await perform(module, operation, {}))["prompt"])

    return Prompt.from_function(text, operation.prompt, description=operation.headline)


def refuse_other_tenant(given: dict[str, Any], own: str) -> None:
    """A tenant named in an argument must be the caller's own; the default stands for none."""
    tenant_id = given.get("tenant_id")
    if tenant_id in (None, own):
        return
    raise InvalidInput(
        f"tenant_id: found {tenant_id[:80]!r}; valid is your own tenant, {own!r}, and no other"
    )


@dataclass(frozen=True, slots=True)
class _Form:
    """What an agent is shown of an operation, and how what it sends is read."""

    arguments: type[ArgModelBase]
    schema: dict[str, Any]
    metadata: Arguments


def _tool(module: Module, operation: Operation, perform: Perform) -> Tool:
    form = _form(operation, tuple(map(module.default, operation.defaults.values())))

    async def answer(**given: Any) -> CallToolResult:
        # What was left out is left to the operation, whose defaults may be settings, or hang on
        # where it is called.
        asks = operation.input_model.model_fields
        spoken = {one for one in named.get() if one in asks and given.get(one) is not None}
        fields = form.arguments.model_fields
        changed = {k: v for k, v in given.items() if k in spoken or v != fields[k].default}
        return _result(operation, await perform(module, operation, changed))

    return Tool(
        fn=answer,
        name=operation.tool,
        title=None,
        description=operation.words,
        parameters=form.schema,
        fn_metadata=form.metadata,
        is_async=True,
        annotations=ToolAnnotations(
            read_only_hint=operation.effect is OperationEffect.READS,
            destructive_hint=operation.effect is OperationEffect.FINAL,
            open_world_hint=False,
        ),
    )


@cache
def _form(operation: Operation, settings: tuple[Any, ...]) -> _Form:
    """The same for every butler whose settings agree: to make one takes ten milliseconds."""
    arguments = _arguments(operation, dict(zip(operation.defaults, settings, strict=True)))
    schema = _concise(arguments.model_json_schema())
    schema["additionalProperties"] = False
    output = _output(operation)
    metadata = Arguments(
        arg_model=arguments, output_model=output, wrap_output=output is not operation.output
    )
    return _Form(arguments, schema, metadata)


def _arguments(operation: Operation, defaults: Mapping[str, Any]) -> type[ArgModelBase]:
    """What the operation asks for, with the defaults that are settings, and the request's id."""
    fields: dict[str, Any] = {}
    known = operation.input_model.model_fields
    needed = [n for n in known if known[n].is_required() or n in operation.tool_needs]
    offered = [name for name in operation.fields if name not in operation.tool_without]
    for name in dict.fromkeys([*needed, *offered]):
        fields[name] = _argument(operation, defaults, name, known[name])
    if operation.tool_tenant:
        fields["tenant_id"] = _TENANT[operation.tool_tenant]
    fields["request_context"] = (dict[str, Any] | None, Field(None, description=_LINEAGE))
    model: type[ArgModelBase] = create_model(
        f"{operation.tool}Arguments", __base__=ArgModelBase, **fields
    )
    return model


def _argument(
    operation: Operation, defaults: Mapping[str, Any], name: str, info: FieldInfo
) -> tuple[Any, Any]:
    kind, default = _unbundled(info), info.default
    if name in operation.tool_needs:
        kind, default = _without_none(kind), ...
    elif name in defaults:
        kind, default = _without_none(kind), defaults[name]
    return kind, Field(default, description=info.description)


def _unbundled(info: FieldInfo) -> Any:
    """The type of a field with all that stands beside it."""
    return Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation


def _without_none(kind: Any) -> Any:
    parts = [part for part in get_args(kind) if part is not type(None)]
    return parts[0] if len(parts) == 1 and parts[0] is not kind else kind


def _output(operation: Operation) -> Any:
    """The model of a result; what is no object stands under `result`."""
    if operation.tool_text:
        return create_model(f"{operation.tool}Output", result=(str, ...))
    kind = operation.output
    if operation.may_find_nothing:
        kind = kind | None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return create_model(f"{operation.tool}Output", result=(kind, ...))


def _result(operation: Operation, answer: Any) -> CallToolResult:
    """An answer as text for the model that asked, and as structure for its program."""
    if operation.tool_text:
        answer = answer[operation.tool_text]
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    wrapped = operation.tool_text or not isinstance(answer, dict) or operation.may_find_nothing
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content={"result": answer} if wrapped else answer,
    )


def _concise(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema in fewer tokens: no titles, and one type where a field may be left out."""
    fields = {name: _concise_field(one) for name, one in schema["properties"].items()}
    kept = {key: value for key, value in schema.items() if key != "title"}
    return {**kept, "properties": fields}


def _concise_field(field: dict[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in field.items() if key != "title"}
    if told.get("default", ...) is None:
        del told["default"]  # not being required says so
    told.pop("minLength", None)  # what is empty is refused by name
    choices = [one for one in field.get("anyOf", []) if one != {"type": "null"}]
    if len(choices) != 1 or "type" not in choices[0]:
        return told
    (choice,) = choices
    del told["anyOf"]
    null = {"enum": [*choice["enum"], None]} if "enum" in choice else {}
    kept = {key: value for key, value in choice.items() if key != "minLength"}
    return {**kept, "type": [choice["type"], "null"], **null, **told}


def _holds_others(annotation: object) -> bool:
    """Whether an argument is a list or an object, be it one that may be left out."""
    if get_origin(annotation) is Annotated:
        return _holds_others(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return any(_holds_others(part) for part in get_args(annotation))
    return get_origin(annotation) in (list, dict)
