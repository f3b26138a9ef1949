"""Named SQL: every statement lives in a `.sql` file beside the code that calls it by name.

A section starts with a line `-- name --`; its parameters are written `:name`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HEADING = re.compile(r"^-- ([a-z][a-z0-9_]*) --[ \t]*$", re.MULTILINE)
# What stands in quotes is left as written, whatever it looks like.
_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")"""
    r"""|(?P<comment>^[ \t]*--[^\n]*\n|[ \t]*--[^\n]*)"""
    r"""|(?<![:\w]):(?P<parameter>[a-z][a-z0-9_]*)""",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Query:
    """One statement with its named parameters, in order of first appearance."""

    name: str
    text: str
    parameters: tuple[str, ...]
    positional: str

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """Values in positional order; a missing or surplus name is a TypeError."""
        if values.keys() != set(self.parameters):
            raise TypeError(f"{self.name} takes {self.parameters}, got {tuple(values)}")
        return [values[name] for name in self.parameters]


def parse(source: str) -> dict[str, Query]:
    """Every named section of one SQL text; a name given twice is a ValueError."""
    _, *sections = _HEADING.split(source)
    names, bodies = sections[::2], sections[1::2]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"sections named twice: {', '.join(twice)}")
    return {name: _query(name, body) for name, body in zip(names, bodies, strict=True)}


def load(module_file: str) -> dict[str, Query]:
    """The queries of the `.sql` file that lies beside a module: `load(__file__)`."""
    return parse(Path(module_file).with_suffix(".sql").read_text(encoding="utf-8"))


def _query(name: str, body: str) -> Query:
    text = _bare(body)
    found = (token["parameter"] for token in _TOKEN.finditer(text))
    parameters = tuple(dict.fromkeys(parameter for parameter in found if parameter))
    return Query(name, text, parameters, _positional(text, parameters))


def _bare(body: str) -> str:
    """A statement without its comments and closing semicolon."""
    code = _TOKEN.sub(lambda token: "" if token["comment"] else token[0], body)
    return code.strip().rstrip(";").rstrip()


def _positional(text: str, parameters: tuple[str, ...]) -> str:
    """The statement with `$1`, `$2`, … in place of names."""
    numbers = {parameter: f"${i}" for i, parameter in enumerate(parameters, 1)}
    return _TOKEN.sub(lambda token: numbers.get(token["parameter"], token[0]), text)
