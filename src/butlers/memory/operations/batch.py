"""The operation that stores many memories at once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, WithJsonSchema

from butlers.errors import ButlersError, InvalidInput, Unavailable
from butlers.memory.flows import batch as flow
from butlers.memory.model import MemoryType, New, NewEpisode, NewFact, NewRule
from butlers.memory.operations import storage
from butlers.memory.operations.operation_context import OperationContext, writes
from butlers.memory.operations.results import Instant, MemoryKind
from butlers.memory.policy.inputs import checked_word
from butlers.operation import Input, Operation, Output, Route, shortened

MOST = 1_000
"""The maximum number of memories in a batch."""

_Fields = Callable[..., Awaitable[dict[str, Any]]]
_KINDS: Mapping[MemoryType, tuple[Operation, type[New], _Fields]] = {
    MemoryType.EPISODE: (storage.store_episode, NewEpisode, storage.episode_fields),
    MemoryType.FACT: (storage.store_fact, NewFact, storage.derived_fields),
    MemoryType.RULE: (storage.store_rule, NewRule, storage.derived_fields),
}


class BatchOutcome(Output):
    """The result of one memory of a batch: what storing it alone returns, or the error."""

    place: int
    """Its position in the batch: 0, 1, 2 …"""
    memory_type: MemoryKind | None = None
    id: UUID | None = None
    expires_at: Instant | None = None
    superseded_id: UUID | None = None
    waits: str | None = None
    error: str | None = None
    """Why it is not stored."""


class BatchStored(Output):
    """The results of a batch."""

    stored: int
    failed: int
    results: list[BatchOutcome]


def _schema(kind: MemoryType, operation: Operation) -> dict[str, Any]:
    """Return the schema of a memory in a batch: memory_type, and the fields that storing takes."""
    schema = operation.input_model.model_json_schema()
    fields = {"memory_type": {"type": "string", "enum": [kind]}, **schema["properties"]}
    return {**schema, "properties": fields, "required": ["memory_type", *schema["required"]]}


_SCHEMAS = [_schema(kind, operation) for kind, (operation, *_) in _KINDS.items()]
# Parsed one by one, so that a fault in one of them refuses no other.
OneMemory = Annotated[Any, WithJsonSchema({"anyOf": _SCHEMAS})]


class StoreBatch(Input):
    """Episodes, facts and rules, in any order."""

    memories: Annotated[list[OneMemory], Field(min_length=1, max_length=MOST)]
    """Up to 1000 memories: each an object with memory_type (episode, fact or rule) and the
    fields that storing one of that kind takes."""


@writes(
    command="store batch",
    output=BatchStored,
    keeps_scopes=True,
    example="store batch memories.jsonl",
    routes=(Route("POST", "/memories/batch"),),
    left_out={
        "mcp": "agents store what they learn as they learn it; its schema would cost them 1,500 "
        "tokens in every session"
    },
)
async def store_batch(ctx: OperationContext, params: StoreBatch) -> flow.StoredBatch:
    """Store many memories at once, each an episode, a fact or a rule.

    They are stored in the order given, exactly as one by one: a later fact supersedes an earlier
    one with the same key, and a known idempotency key stores nothing new. A memory that is refused
    has an error in its result, and the others are stored.

    Returns {stored, failed, results}; each result has place (0, 1, 2 …) and either memory_type
    and what storing it alone returns, or error.
    """
    given = [await _read(ctx, fields) for fields in params.memories]
    return await flow.store_batch(ctx.memory, given, ctx.lineage, ctx.on_progress)


async def _read(ctx: OperationContext, given: Any) -> New | ButlersError:
    """Return the memory to store, or the error that refuses it; raise Unavailable."""
    await asyncio.sleep(0)  # others are served between two memories
    try:
        if not isinstance(given, Mapping):
            raise InvalidInput(f"found {shortened(given)}; valid is a JSON object with memory_type")
        fields = dict(given)
        kind = checked_word("memory_type", str(fields.pop("memory_type", "")), MemoryType)
        operation, record, fields_of = _KINDS[kind]
        return record(**await fields_of(ctx, operation.parse(fields)))
    except Unavailable:
        raise
    except ButlersError as error:
        return error
