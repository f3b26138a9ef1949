"""The fields that operations of the memory share, each with the words for whoever fills it in.

Vocabularies, ids and bounded numbers are checked here; what texts may hold is checked by the flows
and only advertised here, because a flow's refusal says more than a schema's.
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
from butlers.memory.model import EntityType, MemoryType, Origin, Permanence, Then
from butlers.memory.operations.results import Instant
from butlers.memory.policy import inputs
from butlers.memory.policy.attachments import MAX_KEY
from butlers.operation import Detail, Input

A_UUID = "valid is a UUID such as 00000000-0000-4000-8000-000000000000"


def _refusal(valid: str) -> PydanticCustomError:
    return PydanticCustomError("invalid", "{valid}", {"valid": valid})


def _checked(check: Callable[[Any], Any], valid: str) -> BeforeValidator:
    """What a check makes of a text; any fault is told by what is valid."""

    def checked(value: Any) -> Any:
        try:
            return check(value) if isinstance(value, str | UUID) else _raise(valid)
        except (ValueError, InvalidInput):
            raise _refusal(valid) from None

    return BeforeValidator(checked)


def _raise(valid: str) -> Any:
    raise _refusal(valid)


def word(vocabulary: type[StrEnum], *words: StrEnum) -> tuple[Any, ...]:
    """A word of a vocabulary, or of some of its words, as schema and refusals advertise it."""
    known = [str(one) for one in words or vocabulary]
    advertised = WithJsonSchema({"type": "string", "enum": known})
    return _checked(vocabulary, f"valid are {', '.join(known)}"), advertised


def within(low: float, high: float) -> tuple[Any, ...]:
    """A number within its bounds."""

    def checked(value: float) -> float:
        if not low <= value <= high:
            raise _refusal(f"valid is {low:g} to {high:.0f}")
        return value

    return AfterValidator(checked), Field(json_schema_extra={"minimum": low, "maximum": high})


def longest(length: int) -> FieldInfo:
    """A text that says something; the flow checks how long it is once it is cleaned."""
    bounds: dict[str, Any] = {"minLength": 1, "maxLength": length}
    info: FieldInfo = Field(json_schema_extra=bounds)
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
    """A time, or a refusal that says what one looks like."""
    try:
        return known(value)
    except ValueError:
        raise _refusal(A_TIME) from None


Boundary = Annotated[
    AwareDatetime,
    WrapValidator(_a_time),
    # A day alone is its beginning.
    BeforeValidator(lambda told: f"{told}T00:00Z" if _DAY.fullmatch(str(told)) else told),
    WithJsonSchema({"type": "string"}),
]
Kind = Annotated[MemoryType, *word(MemoryType)]
Confirmable = Annotated[MemoryType, *word(MemoryType, MemoryType.FACT, MemoryType.RULE)]
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
Aliases = Annotated[list[Name] | None, Field(description="Other names it goes by.")]
ScopeSeen = Annotated[
    Scope | None,
    Field(description="A butler's name: only what is global or of that butler. Left out: all."),
]
ScopeStored = Annotated[
    Scope, Field(description='"global" for every butler, or the name of the one it is for.')
]
Grounds = Annotated[
    list[Id] | None,
    Field(description="Ids it is true because of: in doubt when they fall.", max_length=20),
]
EntityId = Annotated[
    Id, Field(description="The entity's id, as resolving or creating it gave it, or its beginning.")
]
RuleId = Annotated[
    Id, Field(description="The rule's id, as storing or finding it gave it, or its beginning.")
]
FactId = Annotated[
    Id, Field(description="The fact's id, as storing or finding it gave it, or its beginning.")
]


def _lowered(value: str) -> Origin:
    """A caller may say less of itself than the door does, never more."""
    return Origin(value) if value in _LESS else _raise("")


_LESS = [str(Origin.DOCUMENT), str(Origin.TOOL)]
_Lowered = Annotated[
    Origin,
    _checked(_lowered, "valid are document, tool"),
    WithJsonSchema({"type": "string", "enum": _LESS}),
]
Brought = Annotated[
    _Lowered | None,
    Field(description="document or tool, where it is not your own word: it is then less trusted."),
]
HowMuch = Annotated[
    Detail,
    *word(Detail),
    Field(description="brief leaves out what is empty or internal, and cuts long texts of lists"),
]


class Attached(Input):
    """What may come along with anything that is stored."""

    metadata: Document | None = None
    """Anything else to keep with it, as a JSON object."""
    idempotency_key: Annotated[str, longest(MAX_KEY)] | None = None
    """A name for this very storing: the same key again stores nothing new."""
    origin: Brought = None


def _end_of_day(value: Any) -> Any:
    """A date alone is the last moment of that day, in UTC."""
    if isinstance(value, str) and _DAY.fullmatch(value.strip()):
        with suppress(ValueError):
            return datetime.combine(date.fromisoformat(value.strip()), time.max, UTC)
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
    """Of which time something is asked."""

    as_of: MomentAsked | None = None
    """A date or time: only what held then."""
    known_at: MomentAsked | None = None
    """Only what was believed then."""

    @property
    def then(self) -> Then:
        """The time that is asked about."""
        return Then(self.as_of, self.known_at)


class DetailInput(Input):
    """How much is told of each memory."""

    detail: HowMuch = Detail.BRIEF


class Reference(Input):
    """One memory, by its id."""

    memory_type: Annotated[
        Kind | None, Field(description="Which kind of memory the id is of, where that is known.")
    ] = None
    memory_id: Annotated[
        Id, Field(description="The memory's id, as storing or finding it gave it, or its beginning")
    ]
