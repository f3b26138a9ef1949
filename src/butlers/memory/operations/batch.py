"""Storing many memories at once."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, WithJsonSchema

from butlers.errors import ButlersError, InvalidInput, Unavailable
from butlers.memory.flows import batch as flow
from butlers.memory.flows.batch import StoredBatch
from butlers.memory.model import MemoryType, New
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext
from butlers.memory.operations.results import Instant, MemoryKind
from butlers.memory.operations.storage import (
    new_episode,
    new_fact,
    new_rule,
    store_episode,
    store_fact,
    store_rule,
)
from butlers.memory.policy.inputs import checked_word
from butlers.operation import Input, Operation, OperationEffect, Output, Route, shortened

MOST = 1_000
"""How many memories a batch may hold."""

_STORING = {
    MemoryType.EPISODE: store_episode,
    MemoryType.FACT: store_fact,
    MemoryType.RULE: store_rule,
}
_READING: Mapping[MemoryType, Callable[[OperationContext, Any], Awaitable[New]]] = {
    MemoryType.EPISODE: new_episode,
    MemoryType.FACT: new_fact,
    MemoryType.RULE: new_rule,
}


class BatchOutcome(Output):
    """What came of one memory of a batch: its id, with what else storing it tells, or the error."""

    place: int
    """Where it stood in the batch: 0, 1, 2 …"""
    memory_type: MemoryKind | None = None
    id: UUID | None = None
    expires_at: Instant | None = None
    superseded_id: UUID | None = None
    waits: str | None = None
    error: str | None = None
    """Why it is not stored."""


class BatchStored(Output):
    """What came of a batch."""

    stored: int
    failed: int
    results: list[BatchOutcome]


def _schema(kind: MemoryType, operation: Operation) -> dict[str, Any]:
    """What storing a memory of this kind asks for, and the word that says which kind it is."""
    schema = operation.input_model.model_json_schema()
    fields = {"memory_type": {"type": "string", "enum": [kind]}, **schema["properties"]}
    return {**schema, "properties": fields, "required": ["memory_type", *schema["required"]]}


# Read one by one, so that a fault in one of them is told in its place and refuses no other.
OneMemory = Annotated[Any, WithJsonSchema({"anyOf": [_schema(*one) for one in _STORING.items()]})]


class StoreBatch(Input):
    """What happened, what is true and how to behave, in any order."""

    memories: Annotated[list[OneMemory], Field(min_length=1, max_length=MOST)]
    """Up to 1000 memories: each an object with memory_type (episode, fact or rule) and the
    fields that storing one of that kind takes."""


@OPERATIONS.add(
    output=BatchStored,
    effect=OperationEffect.WRITES,
    keeps_scopes=True,
    example="store-batch memories.jsonl",
    routes=(Route("POST", "/memories/batch"),),
    left_out={
        "mcp": "agents store what they learn as they learn it; its schema would cost them 1,500 "
        "tokens in every session"
    },
)
async def store_batch(ctx: OperationContext, params: StoreBatch) -> StoredBatch:
    """Store many memories at once, each an episode, a fact or a rule.

    They are stored in the order given, exactly as one by one: a later fact supersedes an earlier
    one with the same key, and an idempotency key that is known stores nothing new. What is wrong
    with one of them is told in its place and keeps no other from being stored.

    Returns {stored, failed, results}; each result has place (0, 1, 2 …) and either memory_type
    and what storing it alone returns, or error.
    """
    given = [await _new(ctx, one) for one in params.memories]
    return await flow.store_batch(ctx.memory, given, ctx.lineage, ctx.on_progress)


async def _new(ctx: OperationContext, given: Any) -> New | ButlersError:
    """The memory that is asked to be stored, or what is wrong with it."""
    try:
        return await _read(ctx, given)
    except Unavailable:
        raise
    except ButlersError as error:
        return error


async def _read(ctx: OperationContext, given: Any) -> New:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"found {shortened(given)}; valid is a JSON object with memory_type")
    fields = dict(given)
    kind = checked_word("memory_type", str(fields.pop("memory_type", "")), MemoryType)
    return await _READING[kind](ctx, _STORING[kind].parse(fields))
