"""Validation errors as lines a person can act on: file, key, what was found, what is valid."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from rapidfuzz import fuzz, process

from butlers.kernel.secrets import masked, names_a_secret
from butlers.kernel.sections import Fault
from butlers.settings.fields import Loc, is_model, setting_at, toml_value, valid_text

LONGEST_SHOWN = 120
SIMILAR_ENOUGH = 70
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


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
        yield key, "nothing", f"valid is {valid_text(*setting_at(model, loc))}"
    else:
        yield key, as_toml(loc, detail["input"]), f"valid is {valid_text(*setting_at(model, loc))}"


def _of_section(loc: Loc, fault: Fault) -> tuple[str, str, str]:
    path = [*loc, *fault.key.split(".")] if fault.key else list(loc)
    found = toml_value(fault.found) if isinstance(fault.found, Mapping) else None
    return _dotted(path), found or as_toml(path, fault.found), fault.valid


def as_toml(loc: Loc, value: object) -> str:
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
    table, _ = setting_at(model, loc[:-1])
    keys = list(table.model_fields) if is_model(table) else []
    close = process.extractOne(str(loc[-1]), keys, scorer=fuzz.ratio, score_cutoff=SIMILAR_ENOUGH)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"{guess}valid keys are {', '.join(keys)}"
