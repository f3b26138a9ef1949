"""Named SQL: every statement lives in a `.sql` file beside the code that calls it by name.

A section starts with a line `-- name --`; its parameters are written `:name`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HEADING = re.compile(r"^-- ([a-z][a-z0-9_]*) --$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--[^\n]*\n?|--[^\n]*", re.MULTILINE)
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z][a-z0-9_]*)")


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
    """Every named section of one SQL text."""
    _, *sections = _HEADING.split(source)
    return {
        name: _query(name, body) for name, body in zip(sections[::2], sections[1::2], strict=True)
    }


def load(module_file: str) -> dict[str, Query]:
    """The queries of the `.sql` file that lies beside a module: `load(__file__)`."""
    return parse(Path(module_file).with_suffix(".sql").read_text(encoding="utf-8"))


def _query(name: str, body: str) -> Query:
    text = _COMMENT.sub("", body).strip().rstrip(";")
    found = _PARAMETER.findall(_QUOTED.sub("''", text))
    parameters = tuple(dict.fromkeys(found))
    numbers = {parameter: f"${i}" for i, parameter in enumerate(parameters, 1)}
    return Query(name, text, parameters, _substitute(text, numbers))


def _substitute(text: str, numbers: Mapping[str, str]) -> str:
    """Replace parameters outside quotes; what stands in quotes is left as written."""
    pieces, last = [], 0
    for quoted in _QUOTED.finditer(text):
        pieces += [_PARAMETER.sub(lambda m: numbers[m[1]], text[last : quoted.start()]), quoted[0]]
        last = quoted.end()
    pieces.append(_PARAMETER.sub(lambda m: numbers[m[1]], text[last:]))
    return "".join(pieces)
