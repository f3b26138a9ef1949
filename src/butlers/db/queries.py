"""Named SQL: every statement lives in a `.sql` file beside the code that calls it by name.

A section starts with a line `-- name --`; its parameters are written `:name`. What several
statements have in common, such as a list of columns, stands once: in a section `-- {name} --` that
those below it mention as `{name}`, or in the `fragments.sql` of the directory for all its files.
What code knows, such as the columns of a record, a package declares for all its files (`declare`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A statement that begins with acting for the tenant it then gives to a function.
_ACTING = re.compile(
    r"act_for\(:tenant_id, :actor, :proof\) as tenant\s+cross join lateral (\w+)\((\s*)tenant\b"
)
_HEADING = re.compile(r"^-- (\w+|\{\w+\}) --[ \t]*$", re.MULTILINE)
# What stands in quotes is left as written, whatever it looks like.
_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")"""
    r"""|(?P<comment>^[ \t]*--[^\n]*\n|[ \t]*--[^\n]*)"""
    r"""|(?P<fragment>\{[a-z][a-z0-9_]*\})"""
    r"""|(?<![:\w]):(?P<parameter>[a-z][a-z0-9_]*)""",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One statement with its named parameters, in order of first appearance."""

    name: str
    text: str
    parameters: tuple[str, ...]
    positional: str

    @property
    def acted(self) -> "NamedQuery":
        """The same for a transaction that acts for its tenant already."""
        return _query(self.name, _ACTING.sub(r"\1(\2:tenant_id", self.text))

    def bound(self, **values: Any) -> tuple[Any, ...]:
        """The statement and its values in their order, as the driver takes them."""
        return self.positional, *self.arguments(values)

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """Values in positional order; a missing or surplus name is a TypeError."""
        if values.keys() != set(self.parameters):
            raise TypeError(f"{self.name} takes {self.parameters}, got {tuple(values)}")
        return [values[name] for name in self.parameters]


def parse(
    source: str,
    shared: Mapping[str, str] | None = None,
    instead: Mapping[str, str] | None = None,
) -> dict[str, NamedQuery]:
    """Every statement of one SQL text; a name given twice is a ValueError.

    `instead` holds fragments that stand in for the text's own.
    """
    texts = _filled({**_sections(source), **(instead or {})}, shared or {})
    return {name: _query(name, text) for name, text in texts.items() if not _is_fragment(name)}


def fragments(source: str, shared: Mapping[str, str] | None = None) -> dict[str, str]:
    """What one SQL text has for others to mention, by `{name}`."""
    texts = _filled(_sections(source), shared or {})
    return {name: text for name, text in texts.items() if _is_fragment(name)}


_DECLARED: dict[Path, Mapping[str, str]] = {}


def declare(package_file: str, known: Mapping[str, str]) -> None:
    """Let the SQL of a package mention fragments that its code makes: `declare(__file__, …)`."""
    _DECLARED[Path(package_file).parent] = known


def load(module_file: str) -> dict[str, NamedQuery]:
    """The queries of the `.sql` file that lies beside a module: `load(__file__)`."""
    file = Path(module_file).with_suffix(".sql")
    common, shared = file.with_name("fragments.sql"), dict(_DECLARED.get(file.parent, {}))
    if common.exists():
        shared |= fragments(common.read_text(encoding="utf-8"), shared)
    return parse(file.read_text(encoding="utf-8"), shared)


def _sections(source: str) -> dict[str, str]:
    _, *sections = _HEADING.split(source)
    names, bodies = sections[::2], sections[1::2]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"sections named twice: {', '.join(twice)}")
    return {name: _bare(body) for name, body in zip(names, bodies, strict=True)}


def _filled(sections: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, str]:
    """Every section with what it mentions in its place, each from above it: so none goes round."""
    known, filled = dict(shared), dict[str, str]()
    for name, text in sections.items():
        unknown = [t["fragment"] for t in _TOKEN.finditer(text) if t["fragment"]]
        unknown = [fragment for fragment in unknown if fragment not in known]
        if unknown:
            raise ValueError(f"{name} mentions {', '.join(unknown)}, which does not stand above it")
        filled[name] = _TOKEN.sub(lambda token: known.get(token["fragment"], token[0]), text)
        if _is_fragment(name):
            known[name] = filled[name]
    return filled


def _is_fragment(name: str) -> bool:
    return name.startswith("{")


def _query(name: str, text: str) -> NamedQuery:
    found = (token["parameter"] for token in _TOKEN.finditer(text))
    parameters = tuple(dict.fromkeys(parameter for parameter in found if parameter))
    return NamedQuery(name, text, parameters, _positional(text, parameters))


def _bare(body: str) -> str:
    """A statement without its comments and closing semicolon."""
    code = _TOKEN.sub(lambda token: "" if token["comment"] else token[0], body)
    return code.strip().rstrip(";").rstrip()


def _positional(text: str, parameters: tuple[str, ...]) -> str:
    """The statement with `$1`, `$2`, … in place of names."""
    numbers = {parameter: f"${i}" for i, parameter in enumerate(parameters, 1)}
    return _TOKEN.sub(lambda token: numbers.get(token["parameter"], token[0]), text)
