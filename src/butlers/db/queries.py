"""Named SQL: load the statements of the `.sql` file beside a module.

A section starts with a line `-- name --`; parameters are written `:name`. A fragment that several
statements share, such as a list of columns, is a section `-- {name} --`: sections below it insert
it as `{name}`. Fragments in `fragments.sql` are for all files of the directory.
What code knows, such as the columns of a record, a package declares for all its files (`declare`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The beginning of a statement that calls `act_for` and gives the tenant to a function.
_ACTING = re.compile(
    r"act_for\(:tenant_id, :actor, :proof\) as tenant\s+cross join lateral (\w+)\((\s*)tenant\b"
)
_HEADING = re.compile(r"^-- ([\w{}]+) --[ \t]*$", re.MULTILINE)
_LIST = re.compile(r"^-- (\{\w+\}): (\w+(?:, \w+)*) --[ \t]*\n", re.MULTILINE)
# Quoted text is left as written.
_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")"""
    r"""|(?P<comment>^[ \t]*--[^\n]*\n|(?<![ \t])[ \t]*--[^\n]*)"""
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
        """Return the statement without `act_for`, for a transaction that has called it."""
        return _query(self.name, _ACTING.sub(r"\1(\2:tenant_id", self.text))

    def bound(self, **values: Any) -> tuple[Any, ...]:
        """Return the statement and its values for the driver; TypeError unless names match."""
        if values.keys() != set(self.parameters):
            raise TypeError(f"{self.name} takes {self.parameters}, got {tuple(values)}")
        return self.positional, *(values[name] for name in self.parameters)


def parse(source: str, shared: Mapping[str, str] | None = None) -> dict[str, NamedQuery]:
    """Parse one SQL text, with `shared` fragments; ValueError where a name is given twice."""
    texts = _filled(_sections(source), shared or {})
    return {name: _query(name, text) for name, text in texts.items() if not _is_fragment(name)}


def fragments(source: str, shared: Mapping[str, str] | None = None) -> dict[str, str]:
    """Parse the fragments of one SQL text, by `{name}`."""
    texts = _filled(_sections(source), shared or {})
    return {name: text for name, text in texts.items() if _is_fragment(name)}


_DECLARED: dict[Path, Mapping[str, str]] = {}


def declare(package_file: str, known: Mapping[str, str]) -> None:
    """Let the SQL of a package use fragments that its code makes: `declare(__file__, …)`."""
    _DECLARED[Path(package_file).parent] = known


def load(module_file: str) -> dict[str, NamedQuery]:
    """Load the statements of the `.sql` file beside a module: `load(__file__)`."""
    file = Path(module_file).with_suffix(".sql")
    common, shared = file.with_name("fragments.sql"), dict(_DECLARED.get(file.parent, {}))
    if common.exists():
        shared |= fragments(common.read_text(encoding="utf-8"), shared)
    return parse(file.read_text(encoding="utf-8"), shared)


def _sections(source: str) -> dict[str, str]:
    _, *parts = _HEADING.split(_LIST.sub("", source))
    sections = list(zip(parts[::2], parts[1::2], strict=True))
    for word, values in _LIST.findall(source):
        sections = [each for section in sections for each in _each(section, word, values)]
    names = [name for name, _ in sections]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"sections named twice: {', '.join(twice)}")
    return {name: _bare(body) for name, body in sections}


def _each(section: tuple[str, str], word: str, values: str) -> list[tuple[str, str]]:
    """Repeat a section for each of the values if its name mentions the word."""
    name, body = section
    if word not in name or word == name:
        return [section]
    return [(name.replace(word, value), body.replace(word, value)) for value in values.split(", ")]


def _filled(sections: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, str]:
    """Insert fragments, each from a section above, so that there are no circles."""
    known, filled = dict(shared), dict[str, str]()
    for name, text in sections.items():
        unknown = [t["fragment"] for t in _TOKEN.finditer(text) if t["fragment"]]
        unknown = [fragment for fragment in unknown if fragment not in known]
        if unknown:
            raise ValueError(f"{name} uses {', '.join(unknown)}, which is not defined above it")
        filled[name] = _TOKEN.sub(lambda token: known.get(token["fragment"], token[0]), text)
        if _is_fragment(name):
            known[name] = filled[name]
    return filled


def _is_fragment(name: str) -> bool:
    return name.startswith("{")


def _query(name: str, text: str) -> NamedQuery:
    names = (token["parameter"] for token in _TOKEN.finditer(text))
    parameters = tuple(dict.fromkeys(parameter for parameter in names if parameter))
    return NamedQuery(name, text, parameters, _positional(text, parameters))


def _bare(body: str) -> str:
    """Remove comments and the closing semicolon."""
    code = _TOKEN.sub(lambda token: "" if token["comment"] else token[0], body)
    return code.strip().rstrip(";").rstrip()


def _positional(text: str, parameters: tuple[str, ...]) -> str:
    """Replace names with `$1`, `$2`, …"""
    numbers = {parameter: f"${i}" for i, parameter in enumerate(parameters, 1)}
    return _TOKEN.sub(lambda token: numbers.get(token["parameter"], token[0]), text)
