"""One walk over the models of settings: each key, its default, what is valid and its meaning."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeGuard, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from butlers.kernel.sections import InlineSection, Valid

Loc = Sequence[int | str]

_PLAIN_TYPES: Mapping[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple: "a list of texts",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: what type it is of, what it accepts in words, its default as TOML, if it has one."""

    name: str
    kind: object
    valid: str
    default: str | None
    description: str

    @classmethod
    def of(cls, name: str, field: FieldInfo) -> "Setting":
        """The setting that a field of a model stands for."""
        default = None if field.is_required() else toml_value(field.get_default())
        valid = valid_text(field.annotation, field.metadata)
        return cls(name, field.annotation, valid, default, field.description or "")

    def spread(self) -> "list[Setting]":
        """The keys of the tables it holds; itself where it holds none."""
        table, place = self.kind, ""
        if not is_model(table):
            items = [arg for arg in get_args(table) if is_model(arg)]
            place = ".<n>" if get_origin(table) is tuple else ".<task>"
            table = items[-1] if items else None
        fields = table.model_fields if is_model(table) else {}
        return [Setting.of(f"{self.name}{place}.{k}", f) for k, f in fields.items()] or [self]


@dataclass(frozen=True, slots=True)
class SettingsTable:
    """A section with a header of its own."""

    path: str
    words: str
    settings: tuple[Setting, ...]


def walk(model: type[BaseModel], path: str) -> Iterator[SettingsTable]:
    """The table of a model and those within it, in the order they stand; none that is empty."""
    fields = model.model_fields.items()
    own = (Setting.of(name, field) for name, field in fields if not _is_section(field.annotation))
    table = SettingsTable(path, model.__doc__ or "", tuple(own))
    if table.settings:
        yield table
    for name, field in fields:
        if _is_section(field.annotation):
            yield from walk(field.annotation, f"{path}.{name}" if path else name)


def setting_at(model: type[BaseModel], loc: Loc) -> tuple[object, Sequence[object]]:
    """The type and the bounds of the setting at the end of the path."""
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
    """Whether a setting of this type is a table."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def valid_text(kind: object, bounds: Sequence[object]) -> str:
    """What a setting of this type and with these bounds accepts, in words."""
    for mark in bounds:
        if isinstance(mark, Valid):
            return mark.text
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(toml_value(value) for value in get_args(kind))
    if is_model(kind):
        return "a table with the keys " + ", ".join(kind.model_fields)
    return _PLAIN_TYPES.get(get_origin(kind) or kind, "a table") + _range_text(bounds)


def toml_value(value: object) -> str:
    """The value as TOML on one line."""
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
    low = high = ""
    for mark in bounds:
        if isinstance(mark, Ge):
            low = f" from {mark.ge}"
        elif isinstance(mark, Gt):
            low = f" above {mark.gt}"
        elif isinstance(mark, Le):
            high = f" to {mark.le}"
    return low + high
