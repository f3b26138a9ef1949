"""Parse the answer of a consolidation into entries, and list what is wrong with it."""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from butlers.errors import InvalidInput
from butlers.kernel.text import one_line
from butlers.memory.model import Permanence
from butlers.memory.policy import inputs
from butlers.memory.policy.answer_json import MAX_ANSWER, find_object
from butlers.memory.policy.validity import OPEN, Window

NOTHING = re.compile(r"\s*+(?:```[ \t]*+(?:json)?\s*+)?(?:\{\s*+\}|\[\s*+\])\s*+(?:```)?\s*+")
_NUMBER = re.compile(r"\s*#?[0-9]{1,9}\s*")

MAX_ACTIONS = 100
LISTS = ("new_facts", "updated_facts", "new_rules", "confirmations")
EMPTY, _SOURCES = "nothing_in", "source_episode_ids"

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class NewFactEntry:
    """A new fact in the answer."""

    subject: str
    predicate: str
    content: str
    permanence: Permanence = Permanence.STANDARD
    importance: float = 5.0
    tags: tuple[str, ...] = ()
    sources: tuple[UUID, ...] = ()
    window: Window = OPEN
    entity_id: UUID | None = None
    depends_on: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdatedFactEntry:
    """A change of a known fact; None keeps what the fact has."""

    target_id: UUID
    subject: str
    predicate: str
    content: str
    permanence: Permanence | None = None
    importance: float | None = None
    tags: tuple[str, ...] | None = None
    sources: tuple[UUID, ...] = ()
    window: Window = OPEN


@dataclass(frozen=True, slots=True)
class NewRuleEntry:
    """A new rule in the answer."""

    content: str
    tags: tuple[str, ...] = ()
    sources: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsolidationResult:
    """The entries of an answer, and why others cannot be used."""

    new_facts: tuple[NewFactEntry, ...] = ()
    updated_facts: tuple[UpdatedFactEntry, ...] = ()
    new_rules: tuple[NewRuleEntry, ...] = ()
    confirmations: tuple[UUID, ...] = ()
    parse_errors: tuple[str, ...] = field(default=())
    nothing_in: tuple[UUID, ...] = ()
    is_quoted: bool = False


def parse_consolidation(
    text: str, shown: Mapping[int, UUID] = MappingProxyType({})
) -> ConsolidationResult:
    """Parse an answer; parse errors name the place and the fault, never the content."""
    if NOTHING.fullmatch(text):
        return ConsolidationResult()
    answer, fault = find_object(text, frozenset((*LISTS, EMPTY)))
    if fault is not None:
        return ConsolidationResult(parse_errors=(fault,))
    errors: list[str] = []
    read = _Reader(shown)
    confirmed = partial(read.identifier, "confirmation")
    return ConsolidationResult(
        new_facts=_entries(answer, "new_facts", read.new_fact, errors),
        updated_facts=_entries(answer, "updated_facts", read.updated_fact, errors),
        new_rules=_entries(answer, "new_rules", read.new_rule, errors),
        confirmations=tuple(dict.fromkeys(_entries(answer, "confirmations", confirmed, errors))),
        parse_errors=tuple(errors),
        nothing_in=read.identifiers(answer, EMPTY),
    )


def _entries(
    answer: Mapping[str, Any], name: str, read: Callable[[Any], Entry], errors: list[str]
) -> tuple[Entry, ...]:
    """Read one list; add an error for each entry that cannot be used."""
    entries = answer.get(name)
    if entries is None:
        return ()
    if not isinstance(entries, list):
        errors.append(f"{name}: must be a list")
        return ()
    if len(entries) > MAX_ACTIONS:
        errors.append(
            f"{name}: found {len(entries)} entries; only the first {MAX_ACTIONS} are read"
        )
    usable: list[Entry] = []
    for place, entry in enumerate(entries[:MAX_ACTIONS]):
        try:
            usable.append(read(entry))
        except InvalidInput as error:
            errors.append(f"{name}[{place}]: {error}")
    return tuple(usable)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads entries, in which an identifier may be the number that the prompt showed."""

    shown: Mapping[int, UUID]

    def new_fact(self, entry: Any) -> NewFactEntry:
        fields = _fields(entry)
        values = self._fact(fields)
        entity_id = self.shown.get(_number(fields.get("entity_id")))
        grounds = self.identifiers(fields, "depends_on")
        return NewFactEntry(**values, entity_id=entity_id, depends_on=grounds)

    def updated_fact(self, entry: Any) -> UpdatedFactEntry:
        fields = _fields(entry)
        target_id = self.identifier("target_id", fields.get("target_id"))
        return UpdatedFactEntry(target_id=target_id, **self._fact(fields))

    def _fact(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Read what new and updated facts share, without values that are missing or unusable."""
        optional = {
            "permanence": _permanence(fields),
            "importance": _importance(fields),
            "tags": _tags(fields),
        }
        return {
            "subject": _line(fields, "subject", inputs.MAX_SUBJECT),
            "predicate": _line(fields, "predicate", inputs.MAX_PREDICATE),
            "content": _content(fields),
            "sources": self.identifiers(fields, _SOURCES),
            "window": _window(fields),
            **{name: value for name, value in optional.items() if value is not None},
        }

    def new_rule(self, entry: Any) -> NewRuleEntry:
        fields = _fields(entry)
        sources = self.identifiers(fields, _SOURCES)
        return NewRuleEntry(_content(fields), _tags(fields) or (), sources)

    def identifier(self, name: str, value: Any) -> UUID:
        """Read an identifier; an error does not quote it, since it may be any text."""
        try:
            return self.shown.get(_number(value)) or UUID(value)
        except (ValueError, TypeError, AttributeError):
            or_number = " or a number that was shown" if self.shown else ""
            raise InvalidInput(f"{name}: must be a valid UUID{or_number}") from None

    def identifiers(self, fields: Mapping[str, Any], name: str) -> tuple[UUID, ...]:
        """Read a list of identifiers; other values are left out."""
        value = fields.get(name)
        named: list[UUID] = []
        for entry in value[:MAX_ACTIONS] if isinstance(value, list) else ():
            with suppress(InvalidInput):
                named.append(self.identifier(name, entry))
        return tuple(dict.fromkeys(named))


def _number(value: Any) -> int:
    """Return a number as the prompt shows them; 0 for anything else."""
    is_number = type(value) is int or (isinstance(value, str) and _NUMBER.fullmatch(value))
    return int(str(value).strip().lstrip("#")) if is_number else 0


def _line(fields: Mapping[str, Any], name: str, limit: int) -> str:
    return inputs.checked_line(name, _text(fields, name), limit)


def _content(fields: Mapping[str, Any]) -> str:
    return inputs.checked_text("content", _text(fields, "content"), MAX_ANSWER)


def _fields(entry: Any) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise InvalidInput("must be an object")
    return entry


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"{name}: must be a text")
    return value


def _permanence(fields: Mapping[str, Any]) -> Permanence | None:
    value = fields.get("permanence")
    return Permanence(value) if isinstance(value, str) and value in set(Permanence) else None


def _importance(fields: Mapping[str, Any]) -> float | None:
    """Return the importance within 1 to 10; None for anything but a number."""
    value = fields.get("importance")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    return float(min(max(value, 1), 10))


def _window(fields: Mapping[str, Any]) -> Window:
    """Return the validity window; open if its dates are missing or in the wrong order."""
    begin, end = (_midnight(fields.get(name)) for name in ("valid_from", "valid_to"))
    return OPEN if begin and end and begin >= end else Window(begin, end)


def _midnight(value: Any) -> datetime | None:
    if isinstance(value, str):
        with suppress(ValueError):
            return datetime.combine(date.fromisoformat(value.strip()[:10]), time(), UTC)
    return None


def _tags(fields: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the usable tags; None for anything but a list."""
    value = fields.get("tags")
    if not isinstance(value, list):
        return None
    usable = dict.fromkeys(one_line(tag) for tag in value if isinstance(tag, str))
    fitting = [tag for tag in usable if 0 < len(tag) <= inputs.MAX_TAG]
    return tuple(fitting[: inputs.MAX_TAGS])
