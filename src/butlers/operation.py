"""An operation: declared once, and offered at every door.

Its name, what it asks for, what it answers, whether it reads or changes something, who may call
it and the words a model or a person needs stand in one place, above the function that calls its
flow. Doors are made from it: they parse what they are given into `asks`, run it at a desk, and
show what came of it in the shape of `answers`.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import StrEnum
from functools import cached_property
from inspect import getdoc
from types import NoneType
from typing import Any, Protocol, get_args, get_type_hints, runtime_checkable

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from butlers.errors import Away, InvalidInput
from butlers.kernel.json_values import brief, json_value
from butlers.kernel.rights import Right

Run = Callable[[Any, Any], Awaitable[Any]]
_SHOWN = 80
_MOST_FAULTS = 5


class OperationEffect(StrEnum):
    """What calling an operation does to what is kept."""

    READS = "reads"
    WRITES = "writes"
    FINAL = "cannot be undone"


class Audience(StrEnum):
    """Who may call an operation."""

    TENANT = "whoever has a token of the butler, for its own tenant"
    OWNER = "the butler's own tenant, because it concerns every tenant"


class Toolset(StrEnum):
    """Which tools an agent is offered: each set holds those before it."""

    CORE = "core"
    STANDARD = "standard"
    ALL = "all"

    def holds(self, other: "Toolset") -> bool:
        """Whether what belongs to another set is offered with this one."""
        return list(Toolset).index(other) <= list(Toolset).index(self)


class Detail(StrEnum):
    """How much of a memory is told."""

    BRIEF = "brief"
    FULL = "full"


@runtime_checkable
class ReadableContext(Protocol):
    """A desk at which what only reads can be done where it changes nothing, and may lag."""

    def reader(self, *, current: bool = False) -> Any:
        """Such a desk; `current`: one that does not lag."""
        ...


class Input(BaseModel):
    """What an operation asks for; a key that nobody knows is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Output(BaseModel):
    """What an operation answers; keys beyond those declared are passed on."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Route:
    """Where HTTP offers an operation, below the butler's name."""

    method: str
    path: str
    status: int = 200
    wraps: str = ""
    """The key under which a list stands in its answer, if under any."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation:
    """One thing a module can be asked to do, for every door; each is only ever itself."""

    run: Run
    answers: Any
    example: str
    tool: str
    command: str
    effect: OperationEffect = OperationEffect.READS
    routes: tuple[Route, ...] = ()
    toolset: Toolset = Toolset.ALL
    opt_in: str = ""
    """The setting of `[mcp]` that offers it beside the chosen set."""
    prompt: str = ""
    """The MCP prompt that carries its answer's text, where it is opted in."""
    callers: Audience = Audience.TENANT
    maintains: bool = False
    """Whether it is upkeep, or decides what others drew: for tokens that may operate."""
    keeps_scopes: bool = False
    """Whether it keeps to the scopes of a token that is limited to some; else it refuses one."""
    also_by_place: tuple[str, ...] = ()
    """The fields that may be given by place after those that must be given."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Fields left out that are then as a setting says, by the setting's name."""
    tool_needs: tuple[str, ...] = ()
    """Fields that the tool's contract requires, though another door can do without."""
    tool_without: tuple[str, ...] = ()
    """Fields the tool does not offer: hooks and programs fill them, an agent would guess."""
    tool_text: str = ""
    """The key of the answer that alone is the tool's, where that is a text."""
    tool_tenant: str = ""
    """How the tool takes `tenant_id` for compatibility: required, optional or default."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Doors that do not offer it, each with the reason."""

    @property
    def name(self) -> str:
        """What the operation is called, as a program calls it."""
        return self.run.__name__

    @property
    def needs(self) -> Right:
        """The right without which it is refused."""
        if self.maintains:
            return Right.OPERATE
        return Right.READ if self.effect is OperationEffect.READS else Right.WRITE

    @cached_property
    def words(self) -> str:
        """What a model or a person is told about it."""
        return getdoc(self.run) or ""

    @property
    def headline(self) -> str:
        """Its first sentence."""
        return " ".join(self.words.split("\n\n")[0].split())

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.run)

    @cached_property
    def asks(self) -> type[Input]:
        """The model of what it asks for."""
        asked: type[Input] = self._hints["asked"]
        return asked

    @property
    def result(self) -> Any:
        """What a Python program is given."""
        return self._hints["return"]

    @property
    def may_find_nothing(self) -> bool:
        """Whether there may be nothing to answer."""
        return NoneType in get_args(self.result)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The fields that may be given by place: those that must be given, then some others."""
        fields = self.asks.model_fields
        needed = [name for name, field in fields.items() if field.is_required()]
        return (*needed, *self.also_by_place)

    @cached_property
    def fields(self) -> dict[str, FieldInfo]:
        """What it asks for: what is given by place, then what is its own, then what it shares."""
        known = self.asks.model_fields
        own = [name for name in known if name in self.asks.__annotations__]
        return {name: known[name] for name in dict.fromkeys([*self.arguments, *own, *known])}

    def asked(self, given: Mapping[str, Any]) -> Input:
        """What was given, checked; InvalidInput names each fault."""
        try:
            return self.asks.model_validate(dict(given))
        except ValidationError as error:
            raise InvalidInput(faults_in_words(error)) from None

    async def perform(self, desk: Any, **given: Any) -> Any:
        """Do it for a caller; what came of it in the shape of its answer, as JSON can carry it."""
        asked = self.asked(given)
        return self.shown(await self.done(desk, asked), getattr(asked, "detail", Detail.FULL))

    async def done(self, desk: Any, asked: Any) -> Any:
        """What came of doing it at a desk.

        What only reads may be read from a copy; if that fails, or the database goes away under it,
        it is asked once more, of the original. What writes is never done twice.
        """
        if self.effect is not OperationEffect.READS or not isinstance(desk, ReadableContext):
            return await self.run(desk, asked)
        try:
            return await self.run(desk.reader(), asked)
        except Away:
            return await self.run(desk.reader(current=True), asked)

    def shown(self, result: Any, detail: Detail) -> Any:
        """A result in the shape of the answer; briefly, without what only full detail tells."""
        plain = json_value(_plain(result))
        if result is not None and not isinstance(plain, dict | list):
            (name,) = self.answers.model_fields
            return {name: plain}
        return brief(plain) if detail is Detail.BRIEF else plain


class OperationTable:
    """The operations of a module, in the order they were declared.

    Unless it is told otherwise an operation's tool is called as it is, after the table's prefix,
    and so is its command, with dashes.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[str, Operation] = {}

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._known.values())

    def __getitem__(self, name: str) -> Operation:
        return self._known[name]

    def add(self, **declared: Any) -> Callable[[Run], Operation]:
        """Declare the function below as an operation."""

        def declare(run: Run) -> Operation:
            name = run.__name__
            named = {"tool": f"{self._prefix}{name}", "command": name.replace("_", "-")}
            operation = Operation(run=run, **{**named, **declared})
            if operation.name in self._known:
                raise ValueError(f"operation {operation.name} is declared twice")
            self._known[operation.name] = operation
            return operation

        return declare


def faults_in_words(error: ValidationError) -> str:
    """What is wrong with each field: what was found, and what is valid."""
    return "; ".join(map(fault_in_words, error.errors(include_url=False)[:_MOST_FAULTS]))


def fault_in_words(fault: Mapping[str, Any], place: Sequence[Any] | None = None) -> str:
    """What is wrong with one field."""
    where = ".".join(map(str, fault["loc"] if place is None else place)) or "the request"
    if fault["type"] == "missing":
        return f"{where}: required, but missing"
    if fault["type"] == "extra_forbidden":
        return f"{where}: no such argument"
    return f"{where}: found {shortened(fault.get('input'))}; {fault['msg']}"


def shortened(value: object) -> str:
    """A value as a refusal may repeat it."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _plain(result: Any) -> Any:
    if isinstance(result, list):
        return [_plain(one) for one in result]
    if hasattr(result, "as_dict"):
        return result.as_dict()
    if isinstance(result, BaseModel):
        return result.model_dump()
    return asdict(result) if is_dataclass(result) and not isinstance(result, type) else result
