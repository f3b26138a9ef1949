"""Operations as methods of a memory; the generated `methods.pyi` declares their types."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.operations import OPERATIONS, OperationContext
from butlers.operation import Operation

WIRE_FIELDS = {"detail": "a program has the whole row at hand"}
"""Fields that only networked interfaces offer, each with the reason."""


@dataclass(frozen=True)
class Methods:
    """A memory, and the tenant, actor and request that act on it."""

    handle: Memory
    lineage: Lineage


def offered() -> list[Operation]:
    """The operations that Python programs can call."""
    return [operation for operation in OPERATIONS if "python" not in operation.left_out]


def signature_of(operation: Operation) -> inspect.Signature:
    """The signature of an operation's method: some fields positional, all by name."""
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, field in operation.fields.items():
        if name in WIRE_FIELDS:
            continue
        kind = inspect.Parameter.KEYWORD_ONLY
        if name in operation.arguments:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty if field.is_required() else field.default
        parameters.append(
            inspect.Parameter(name, kind, default=default, annotation=field.annotation)
        )
    return inspect.Signature(parameters, return_annotation=operation.result)


def _method(operation: Operation) -> Callable[..., Any]:
    signature = signature_of(operation)

    async def call(*given: Any, **named: Any) -> Any:
        arguments = signature.bind(*given, **named).arguments
        memory: Methods = arguments.pop("self")
        ctx = OperationContext(memory.handle, memory.lineage)
        return await operation.execute(ctx, operation.parse(arguments))

    vars(call)["__signature__"] = signature
    call.__name__, call.__qualname__ = operation.name, f"Methods.{operation.name}"
    call.__doc__ = operation.words
    call.__annotations__ = {"return": operation.result}
    return call


for _operation in offered():
    setattr(Methods, _operation.name, _method(_operation))
