"""An operation: declared once, offered by every interface (MCP, HTTP, CLI, Python, web).

One declaration holds its name, its input and output models, its effect, who may call it and its
description. Interfaces are built from it: they parse arguments into `input_model`, run it with an
operation context and render the result in the shape of `output`.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import StrEnum
from functools import cached_property
from inspect import getdoc
from types import NoneType
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from butlers.auth.rights import INCLUDED_RIGHTS, Caller, Right
from butlers.errors import Away, InvalidInput
from butlers.kernel.json_values import brief, json_value
from butlers.kernel.private_tags import public_arguments

Run = Callable[[Any, Any], Awaitable[Any]]
_SHOWN = 80
_MOST_FAULTS = 5
_WORDS = {"content", "memories", "canonical_name"}
"""Arguments that hold a caller's words."""


class OperationEffect(StrEnum):
    """What an operation does to stored data."""

    READS = "reads"
    WRITES = "writes"
    FINAL = "cannot be undone"


class Audience(StrEnum):
    """Who may call an operation."""

    TENANT = "everybody with a token of the butler, for their own tenant"
    OWNER = "the butler's own tenant, because it affects every tenant"


class Toolset(StrEnum):
    """Which tools an agent is offered; each set includes the ones before it."""

    CORE = "core"
    STANDARD = "standard"
    ALL = "all"

    def holds(self, other: "Toolset") -> bool:
        """Whether this set includes another."""
        return list(Toolset).index(other) <= list(Toolset).index(self)


class Detail(StrEnum):
    """How much of a memory is returned."""

    BRIEF = "brief"
    FULL = "full"


class Input(BaseModel):
    """Base of the input models; an unknown key is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Output(BaseModel):
    """Base of the output models; undeclared keys are passed through."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Route:
    """The HTTP route of an operation, relative to the butler's path."""

    method: str
    path: str
    status: int = 200
    wraps: str = ""
    """The key that holds a list in the response, if any."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation:
    """Something a module can do, as every interface offers it; compared by identity."""

    run: Run
    output: Any
    example: str
    tool: str
    command: str
    effect: OperationEffect = OperationEffect.READS
    routes: tuple[Route, ...] = ()
    toolset: Toolset = Toolset.ALL
    opt_in: str = ""
    """The `[mcp]` setting that adds its tool to the chosen toolset."""
    prompt: str = ""
    """The MCP prompt that returns its text, when opted in."""
    callers: Audience = Audience.TENANT
    is_maintenance: bool = False
    """Whether it needs the right `operate`; it then also runs without a time limit."""
    keeps_scopes: bool = False
    """Whether it respects a token's scopes; if not, it refuses a token limited to scopes."""
    positional: tuple[str, ...] = ()
    """Optional fields that may be positional, after the required ones."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Fields whose default is a setting, by the setting's name."""
    tool_needs: tuple[str, ...] = ()
    """Fields that only the MCP tool requires."""
    tool_without: tuple[str, ...] = ()
    """Fields the MCP tool does not offer: programs fill them, an agent would guess."""
    tool_text: str = ""
    """The output key that alone is the tool's result, as text."""
    tool_tenant: str = ""
    """How the tool accepts `tenant_id` for compatibility: required, optional or default."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Interfaces that do not offer it, each with the reason."""

    @property
    def name(self) -> str:
        """Its name in Python."""
        return self.run.__name__

    @cached_property
    def needs(self) -> Right:
        """The right a token needs to call it."""
        if self.is_maintenance:
            return Right.OPERATE
        return Right.READ if self.effect is OperationEffect.READS else Right.WRITE

    def permits(self, caller: Caller) -> bool:
        """Whether the rights and scopes of a caller's token permit it."""
        has_right = self.needs in INCLUDED_RIGHTS[caller.rights]
        return has_right and (self.keeps_scopes or not caller.scopes)

    @cached_property
    def words(self) -> str:
        """Its description, from the docstring."""
        return getdoc(self.run) or ""

    @property
    def headline(self) -> str:
        """The first paragraph of its description."""
        return " ".join(self.words.split("\n\n")[0].split())

    @cached_property
    def input_model(self) -> type[Input]:
        """The model of its arguments."""
        model: type[Input] = get_type_hints(self.run)["params"]
        return model

    @cached_property
    def result(self) -> Any:
        """The type that a Python program gets back."""
        return get_type_hints(self.run)["return"]

    @cached_property
    def may_find_nothing(self) -> bool:
        """Whether it may return None."""
        return NoneType in get_args(self.result)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The positional fields: the required ones, then some optional ones."""
        fields = self.input_model.model_fields
        needed = [name for name, field in fields.items() if field.is_required()]
        return (*needed, *self.positional)

    @cached_property
    def fields(self) -> dict[str, FieldInfo]:
        """Its input fields: positional ones first, then its own, then inherited ones."""
        fields = self.input_model.model_fields
        own = [name for name in fields if name in self.input_model.__annotations__]
        return {name: fields[name] for name in dict.fromkeys([*self.arguments, *own, *fields])}

    @cached_property
    def stores_text(self) -> bool:
        """Whether it stores words of its caller."""
        is_read = self.effect is OperationEffect.READS
        return not is_read and not _WORDS.isdisjoint(self.input_model.model_fields)

    def parse(self, given: Mapping[str, Any]) -> Input:
        """Validate arguments, without private spans of texts; InvalidInput names each fault."""
        if self.stores_text:
            given = public_arguments(given)
        try:
            return self.input_model.model_validate(dict(given))
        except ValidationError as error:
            raise InvalidInput(faults_in_words(error)) from None

    async def perform(self, ctx: Any, **given: Any) -> Any:
        """Parse arguments, run it and return its output as JSON values."""
        params = self.parse(given)
        result = await self.execute(ctx, params)
        plain = json_value(_plain(result))
        if result is not None and not isinstance(plain, dict | list):
            (name,) = self.output.model_fields
            return {name: plain}
        detail = getattr(params, "detail", Detail.FULL)
        return brief(plain) if detail is Detail.BRIEF else plain

    async def execute(self, ctx: Any, params: Any) -> Any:
        """Run it with parsed arguments.

        A read may come from a replica; if the replica or the connection fails, it is read once
        more from the primary. A write is never retried.
        """
        if self.effect is not OperationEffect.READS or not hasattr(ctx, "reader"):
            return await self.run(ctx, params)
        try:
            return await self.run(ctx.reader(), params)
        except Away:
            return await self.run(ctx.reader(current=True), params)


class OperationTable:
    """The operations of a module, in the order of their declaration.

    By default the tool is the table's prefix with the operation's name, the command is its name
    with dashes, and the example is the command alone.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._operations: dict[str, Operation] = {}

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._operations.values())

    def __getitem__(self, name: str) -> Operation:
        return self._operations[name]

    def add(self, **declared: Any) -> Callable[[Run], Operation]:
        """Declare the decorated function as an operation."""

        def declare(run: Run) -> Operation:
            name = run.__name__
            command = declared.get("command", name.replace("_", "-"))
            names = {"tool": f"{self._prefix}{name}", "command": command, "example": command}
            operation = Operation(run=run, **{**names, **declared})
            if operation.name in self._operations:
                raise ValueError(f"operation {operation.name} is declared twice")
            self._operations[operation.name] = operation
            return operation

        return declare


def faults_in_words(error: ValidationError) -> str:
    """Describe what is wrong with each field: the value given and what is valid."""
    return "; ".join(map(fault_in_words, error.errors(include_url=False)[:_MOST_FAULTS]))


def fault_in_words(fault: Mapping[str, Any], path: Sequence[Any] | None = None) -> str:
    """Describe what is wrong with one field."""
    where = ".".join(map(str, fault["loc"] if path is None else path)) or "the request"
    if fault["type"] == "missing":
        return f"{where}: required, but missing"
    if fault["type"] == "extra_forbidden":
        return f"{where}: no such argument"
    return f"{where}: found {shortened(fault.get('input'))}; {fault['msg']}"


def shortened(value: object) -> str:
    """Return a value's repr, short enough for an error message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _plain(result: Any) -> Any:
    if isinstance(result, list):
        return [_plain(item) for item in result]
    if hasattr(result, "as_dict"):
        return result.as_dict()
    if isinstance(result, BaseModel):
        return result.model_dump()
    return asdict(result) if is_dataclass(result) and not isinstance(result, type) else result
