"""Fields that operations share, with their descriptions.

Vocabularies, ids and bounded numbers are checked here. Limits of texts are only advertised: the
flows check them, and their errors say more than a schema's.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from butlers.errors import InvalidInput
from butlers.memory.flows import lookup
from butlers.memory.model import EntityType, MemoryType, Origin, Permanence
from butlers.memory.operations.results import Instant
from butlers.memory.policy import inputs
from butlers.memory.policy.inputs import MAX_KEY
from butlers.operation import Detail, Input

A_UUID = "valid is a UUID such as 00000000-0000-4000-8000-000000000000"


def _refusal(valid: str) -> PydanticCustomError:
    return PydanticCustomError("invalid", "{valid}", {"valid": valid})


def _checked(check: Callable[[Any], Any], valid: str) -> BeforeValidator:
    """Parse a text or UUID with `check`; an error says what is valid."""

    def checked(value: Any) -> Any:
        try:
            if isinstance(value, str | UUID):
                return check(value)
        except (ValueError, KeyError, InvalidInput):
            pass
        raise _refusal(valid)

    return BeforeValidator(checked)


def word(vocabulary: type[StrEnum], *words: StrEnum) -> tuple[Any, ...]:
    """Accept a word of a vocabulary, or only some of its words."""
    known = {str(name): name for name in words or vocabulary}
    advertised = WithJsonSchema({"type": "string", "enum": list(known)})
    return _checked(lambda value: known[str(value)], f"valid are {', '.join(known)}"), advertised


def within(low: float, high: float) -> tuple[Any, ...]:
    """Accept a number from `low` to `high`."""

    def checked(value: float) -> float:
        if not low <= value <= high:
            raise _refusal(f"valid is {low:g} to {high:.0f}")
        return value

    return AfterValidator(checked), Field(json_schema_extra={"minimum": low, "maximum": high})


def longest(length: int) -> FieldInfo:
    """Advertise the maximum length of a text; the flow checks it after cleaning."""
    info: FieldInfo = Field(json_schema_extra={"minLength": 1, "maxLength": length})
    return info


Uuid = Annotated[
    UUID,
    _checked(lambda value: inputs.checked_id("id", value), A_UUID),
    WithJsonSchema({"type": "string", "format": "uuid"}),
]
Id = Annotated[
    str,
    _checked(lambda value: str(lookup.checked_beginning(value)), lookup.VALID_ID),
    WithJsonSchema({"type": "string", "minLength": lookup.SHORTEST, "maxLength": 36}),
]
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
A_TIME = "valid is a date such as 2026-03-01, or a time with its offset such as 2026-03-01T12:00Z"


def _a_time(value: Any, known: Callable[[Any], datetime]) -> datetime:
    """Parse a time; an error says what one looks like."""
    try:
        return known(value)
    except ValueError:
        raise _refusal(A_TIME) from None


Boundary = Annotated[
    AwareDatetime,
    WrapValidator(_a_time),
    # A day alone is its beginning.
    BeforeValidator(lambda value: f"{value}T00:00Z" if _DAY.fullmatch(str(value)) else value),
    WithJsonSchema({"type": "string"}),
]
Kind = Annotated[MemoryType, *word(MemoryType)]
# The flow refuses an episode, and says why.
Confirmable = Annotated[
    MemoryType,
    _checked(MemoryType, "valid are fact, rule"),
    WithJsonSchema({"type": "string", "enum": ["fact", "rule"]}),
]
HowLong = Annotated[Permanence, *word(Permanence)]
EntityKind = Annotated[EntityType, *word(EntityType)]
Amount = Annotated[int, Field(json_schema_extra={"minimum": 1})]
Subject = Annotated[str, longest(inputs.MAX_SUBJECT)]
Predicate = Annotated[str, longest(inputs.MAX_PREDICATE)]
Scope = Annotated[str, longest(inputs.MAX_SCOPE)]
Tag = Annotated[str, longest(inputs.MAX_TAG)]
Name = Annotated[str, longest(inputs.MAX_NAME)]
Document = dict[str, Any]
Importance = Annotated[float, *within(0, 10), Field(description="0 (trivial) to 10 (vital).")]
Labels = Annotated[
    list[Tag] | None,
    Field(description="Free labels.", json_schema_extra={"maxItems": inputs.MAX_TAGS}),
]
Aliases = Annotated[list[Name] | None, Field(description="Other names of it.")]
ScopeSeen = Annotated[
    Scope | None,
    Field(description="A butler's name: only its memories and global ones. All if omitted."),
]
ScopeStored = Annotated[
    Scope, Field(description='"global" for every butler, or the name of one butler.')
]
Grounds = Annotated[
    list[Id] | None,
    Field(description="Ids of what it is true because of.", max_length=20),
]
EntityId = Annotated[Id, Field(description="The entity's id, or at least its first 6 digits.")]
RuleId = Annotated[Id, Field(description="The rule's id, or at least its first 6 digits.")]
FactId = Annotated[Id, Field(description="The fact's id, or at least its first 6 digits.")]


class Attached(Input):
    """What can be stored with any memory."""

    metadata: Document | None = None
    """Anything else to keep with it."""
    idempotency_key: Annotated[str, longest(MAX_KEY)] | None = None
    """A name for this call: the same key again stores nothing new."""
    # A caller may lower its trust, never raise it.
    origin: Annotated[Origin, *word(Origin, Origin.DOCUMENT, Origin.TOOL)] | None = None
    """document (page, mail) or tool, if you only pass it on."""


def _end_of_day(value: Any) -> Any:
    """Turn a date without a time into the last moment of that day, in UTC."""
    if isinstance(value, str) and _DAY.fullmatch(value.strip()):
        with suppress(ValueError):
            value = date.fromisoformat(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time.max, UTC)
    return value


MomentAsked = Annotated[
    Instant,
    WrapValidator(_a_time),
    BeforeValidator(_end_of_day),
    WithJsonSchema({"type": "string"}),
]


class Dated(Input):
    """The time that a question is about."""

    as_of: MomentAsked | None = None
    """A date or time: only what held then."""
    known_at: MomentAsked | None = None
    """Only what was believed then."""


class DetailInput(Input):
    """How much of each memory to return."""

    detail: Annotated[Detail, *word(Detail)] = Detail.BRIEF
    """brief leaves out empty and internal fields and cuts long texts"""


MOST_LISTED = 1000
ListLimit = Annotated[int, *within(1, MOST_LISTED)]


class Limited(Input):
    """How many items to list."""

    limit: ListLimit = 100
    """The maximum number of items."""


class Reference(Input):
    """One memory, by its id."""

    memory_type: Kind | None = None
    """The type of the memory, if you know it."""
    memory_id: Id
    """The memory's id, or at least its first 6 digits."""
