"""The fields of settings in words: each key, its default, what is valid, and faults."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Literal, TypeGuard, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from rapidfuzz import fuzz, process

from butlers.kernel.secrets import SECRET_NAME, masked
from butlers.kernel.sections import Fault, InlineSection, Valid

LONGEST_SHOWN = 120
SIMILAR_ENOUGH = 70
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
Loc = Sequence[int | str]

_PLAIN_TYPES: Mapping[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}
_BOUNDS: Mapping[type, str] = {
    Ge: " from {0.ge}",
    Gt: " above {0.gt}",
    Le: " to {0.le}",
    MinLen: " of {0.min_length}",
    MaxLen: " to {0.max_length} characters",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its type, what it accepts in words, and its default as TOML, if it has one."""

    name: str
    kind: object
    valid: str
    default: str | None
    description: str

    @classmethod
    def of(cls, name: str, field: FieldInfo) -> "Setting":
        """Describe a field of a model."""
        default = None if field.is_required() else toml_value(field.get_default())
        valid = valid_text(field.annotation, field.metadata)
        words = " ".join((field.description or "").split())
        return cls(name, field.annotation, valid, default, words)


@dataclass(frozen=True, slots=True)
class SettingsTable:
    """A section with its own header."""

    path: str
    words: str
    settings: tuple[Setting, ...]


def walk(model: type[BaseModel], path: str) -> Iterator[SettingsTable]:
    """Yield the table of a model and those within it, in their order, without empty ones."""
    fields = model.model_fields.items()
    own = (Setting.of(name, field) for name, field in fields if not _is_section(field.annotation))
    table = SettingsTable(path, model.__doc__ or "", tuple(own))
    if table.settings:
        yield table
    for name, field in fields:
        if _is_section(field.annotation):
            yield from walk(field.annotation, f"{path}.{name}" if path else name)


def setting_at(model: type[BaseModel], loc: Loc) -> tuple[object, Sequence[object]]:
    """Get the type and the bounds of the setting at the end of the path."""
    kind: object = model
    bounds: Sequence[object] = ()
    for part in loc:
        if is_model(kind):
            field = kind.model_fields[str(part)]
            kind, bounds = field.annotation, field.metadata
        else:
            # Within a table of tables, or a list, the path goes on with the type of the items.
            kind, bounds = [arg for arg in get_args(kind) if arg is not Ellipsis][-1], ()
            if get_origin(kind) is Annotated:
                kind, *bounds = get_args(kind)
    return kind, bounds


def is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    """Tell whether a setting of this type is a table."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def valid_text(kind: object, bounds: Sequence[object]) -> str:
    """Say what a setting of this type and with these bounds accepts."""
    if texts := [bound.text for bound in bounds if isinstance(bound, Valid)]:
        return texts[0]
    if choices := _choices(kind):
        return "one of " + ", ".join(map(toml_value, choices))
    if is_model(kind):
        return "a table with the keys " + ", ".join(kind.model_fields)
    if get_origin(kind) in (Union, UnionType):
        return ", or ".join(_item_text(each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        return f"a list, each item {_item_text(get_args(kind)[0])}"
    if kind in _PLAIN_TYPES:
        return _PLAIN_TYPES[kind] + _range_text(bounds)
    return f"a table, each entry {_item_text(get_args(kind)[-1])}"


def _item_text(kind: object) -> str:
    if get_origin(kind) is Annotated:
        kind, *bounds = get_args(kind)
        return valid_text(kind, bounds)
    return valid_text(kind, ())


def _choices(kind: object) -> Sequence[object]:
    """List the only values that a literal or an enum accepts."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [member.value for member in kind]
    return get_args(kind) if get_origin(kind) is Literal else ()


def toml_value(value: object) -> str:
    """Write the value as TOML on one line."""
    if isinstance(value, BaseModel):
        return toml_value(dict(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A basic string of TOML is one of JSON but for the delete character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return str(value)


def _is_section(kind: object) -> TypeGuard[type[BaseModel]]:
    return is_model(kind) and not issubclass(kind, InlineSection)


def _range_text(bounds: Sequence[object]) -> str:
    known = (bound for bound in bounds if type(bound) in _BOUNDS)
    return "".join(_BOUNDS[type(bound)].format(bound) for bound in known)


def fault_line(file: Path, key: str, found: str, valid: str) -> str:
    """Put one fault on one line."""
    return f"{file}: {key}: found {found}; {valid}"


def fault_lines(file: Path, model: type[BaseModel], error: ValidationError) -> list[str]:
    """Put each fault of a validated file on one line: file, key, value found, values valid."""
    details = error.errors(include_url=False)
    return [fault_line(file, *parts) for detail in details for parts in _faults(model, detail)]


def _faults(model: type[BaseModel], detail: ErrorDetails) -> Iterator[tuple[str, str, str]]:
    loc = detail["loc"]
    key = _dotted(loc)
    if detail["type"] == "extra_forbidden":
        # Its value is not shown: a key nobody knows may well hold a secret.
        yield key, "an unknown key", _known_keys(model, loc)
    elif detail["type"] == "faults":
        for fault in detail["ctx"]["faults"]:
            yield _of_section(loc, fault)
    elif detail["type"] == "missing":
        yield key, "nothing", f"valid is {valid_text(*setting_at(model, loc))}"
    else:
        yield key, as_toml(loc, detail["input"]), f"valid is {valid_text(*setting_at(model, loc))}"


def _of_section(loc: Loc, fault: Fault) -> tuple[str, str, str]:
    path = [*loc, *fault.key.split(".")] if fault.key else list(loc)
    found = toml_value(fault.found) if isinstance(fault.found, Mapping) else None
    return _dotted(path), found or as_toml(path, fault.found), fault.valid


def as_toml(loc: Loc, value: object) -> str:
    """Write the value as TOML, shortened, unless it may hold a secret."""
    if isinstance(value, Mapping | BaseModel):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str) and loc and SECRET_NAME.search(str(loc[-1])):
        return "text that is not shown here"
    text = masked(toml_value(value), "***").text
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _dotted(loc: Loc) -> str:
    parts = [str(part) for part in loc]
    return ".".join(part if BARE_KEY.fullmatch(part) else toml_value(part) for part in parts)


def _known_keys(model: type[BaseModel], loc: Loc) -> str:
    table, _ = setting_at(model, loc[:-1])
    keys = list(table.model_fields) if is_model(table) else []
    close = process.extractOne(str(loc[-1]), keys, scorer=fuzz.ratio, score_cutoff=SIMILAR_ENOUGH)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"{guess}valid keys are {', '.join(keys)}"
