"""What comes along with a memory: metadata and context, keys and origins, fit to be stored."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from butlers.errors import InvalidInput
from butlers.kernel.text import clean_json
from butlers.memory.model import MemoryRef, MemoryType, NewEpisode, NewFact, NewRule
from butlers.memory.policy import inputs

MAX_DOCUMENT = 50_000
# With the tenant it forms an index entry, which PostgreSQL bounds at 2.7 kB.
MAX_KEY = 400

# What the lifecycle writes into metadata; a memory must not be born fading or forgotten.
RESERVED = frozenset(
    {"status", "forgotten", "needs_inversion", "harmful_reasons", "original_content"}
)

New = TypeVar("New", NewEpisode, NewFact, NewRule)
Sourced = TypeVar("Sourced", NewFact, NewRule)


def checked_document(field: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object without NUL, of bounded length, that PostgreSQL can hold."""
    try:
        cleaned: dict[str, Any] = clean_json(value)
        written = len(json.dumps(cleaned, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(
            f"{field}: found a value that JSON cannot hold; "
            "valid are texts, finite numbers, true, false, null, lists and objects of these"
        ) from None
    if written > MAX_DOCUMENT:
        raise InvalidInput(
            f"{field}: found {written} characters of JSON; valid is at most {MAX_DOCUMENT}"
        )
    return cleaned


def checked_attachments(new: New) -> New:
    """A new memory whose metadata and idempotency key can be stored."""
    key = new.idempotency_key
    metadata = checked_document("metadata", new.metadata)
    for name in RESERVED & metadata.keys():
        raise InvalidInput(f"metadata.{name}: found a reserved key; valid is any other name")
    return replace(
        new,
        metadata=metadata,
        idempotency_key=key and inputs.checked_line("idempotency_key", key, MAX_KEY),
    )


def checked_origin(new: Sourced) -> Sourced:
    """A new memory whose source butler can be stored."""
    butler = new.source_butler
    checked = butler and inputs.checked_line("source_butler", butler, inputs.MAX_SCOPE)
    return replace(new, source_butler=checked or None)


def checked_ref(name: str, memory_type: str, memory_id: Any) -> MemoryRef:
    """A memory by kind and id, as given in the fields `<name>_type` and `<name>_id`."""
    return MemoryRef(
        inputs.checked_word(f"{name}_type", memory_type, MemoryType),
        inputs.checked_id(f"{name}_id", memory_id),
    )
