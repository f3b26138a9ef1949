"""Validation errors as lines a person can act on: file, key, what was found, what is valid."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeGuard, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from rapidfuzz import fuzz, process

from butlers.kernel.secrets import masked, names_a_secret
from butlers.kernel.sections import Fault, InlineSection, Valid
from butlers.settings.toml_text import toml_value

LONGEST_SHOWN = 120
SIMILAR_ENOUGH = 70
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
PLAIN_TYPES: Mapping[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple: "a list of texts",
}
Loc = Sequence[int | str]


def fault_line(file: Path, key: str, found: str, valid: str) -> str:
    """One line for one fault."""
    return f"{file}: {key}: found {found}; {valid}"


def fault_lines(file: Path, model: type[BaseModel], error: ValidationError) -> list[str]:
    """One line for each fault of a file that was validated against the model."""
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
        yield key, "nothing", f"valid is {valid_text(*_setting_at(model, loc))}"
    else:
        yield key, shown(loc, detail["input"]), f"valid is {valid_text(*_setting_at(model, loc))}"


def _of_section(loc: Loc, fault: Fault) -> tuple[str, str, str]:
    path = [*loc, *fault.key.split(".")] if fault.key else list(loc)
    found = toml_value(fault.found) if isinstance(fault.found, Mapping) else None
    return _dotted(path), found or shown(path, fault.found), fault.valid


def shown(loc: Loc, value: object) -> str:
    """The value as written in TOML, unless it is large or may hold a secret."""
    if isinstance(value, Mapping | BaseModel):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str) and loc and names_a_secret(str(loc[-1])):
        return "text that is not shown here"
    text = masked(toml_value(value), "***").text
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _dotted(loc: Loc) -> str:
    parts = [str(part) for part in loc]
    return ".".join(part if BARE_KEY.fullmatch(part) else toml_value(part) for part in parts)


def _known_keys(model: type[BaseModel], loc: Loc) -> str:
    table, _ = _setting_at(model, loc[:-1])
    keys = list(table.model_fields) if _is_model(table) else []
    close = process.extractOne(str(loc[-1]), keys, scorer=fuzz.ratio, score_cutoff=SIMILAR_ENOUGH)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"{guess}valid keys are {', '.join(keys)}"


def _setting_at(model: type[BaseModel], loc: Loc) -> tuple[object, Sequence[object]]:
    """The type and the bounds of the setting at the end of the path."""
    kind: object = model
    bounds: Sequence[object] = ()
    for part in loc:
        if _is_model(kind):
            field = kind.model_fields[str(part)]
            kind, bounds = field.annotation, field.metadata
        else:
            # Within a table of tables, or a list, the path goes on with the type of the items.
            kind, bounds = [arg for arg in get_args(kind) if arg is not Ellipsis][-1], ()
    return kind, bounds


def _is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def is_section(kind: object) -> TypeGuard[type[BaseModel]]:
    """Whether a setting of this type is a section with a header of its own."""
    return _is_model(kind) and not issubclass(kind, InlineSection)


def leaf_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The settings of a section that are not sections themselves."""
    fields = model.model_fields.items()
    return {name: field for name, field in fields if not is_section(field.annotation)}


def valid_text(kind: object, bounds: Sequence[object]) -> str:
    """What a setting of this type and with these bounds accepts, in words."""
    for mark in bounds:
        if isinstance(mark, Valid):
            return mark.text
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(toml_value(value) for value in get_args(kind))
    if _is_model(kind):
        return "a table with the keys " + ", ".join(kind.model_fields)
    return PLAIN_TYPES.get(get_origin(kind) or kind, "a table") + _range_text(bounds)


def _range_text(bounds: Sequence[object]) -> str:
    low = high = ""
    for mark in bounds:
        if isinstance(mark, Ge):
            low = f" from {mark.ge}"
        elif isinstance(mark, Gt):
            low = f" above {mark.gt}"
        elif isinstance(mark, Le):
            high = f" to {mark.le}"
    return low + high
