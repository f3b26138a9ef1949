"""Read `.butlersignore`: folders, files and patterns of text that are private; hooks import this.

A line is a path as in `.gitignore` (`*` also matches `/`), or `pattern: ` and a regular expression.
Matching takes time in proportion to the text: expressions that could take longer are refused.
"""

import fnmatch
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

NAME = ".butlersignore"
MAX_BYTES, MAX_LINES, MAX_CHARACTERS = 64 * 1024, 500, 300
MAX_REPEATS, REPEAT = 2, 100
"""An expression may repeat so many times something, each so often at most."""

_PATTERN = "pattern:"
_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{}|;,=]{1,400}")
# An escape, a class, the start of a group, its end with what follows, or a repeat.
_PART = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\]){0,300}\])|(?P<group>\((?:\?:)?)|(?P<end>\)[*+{]?)"
    r"|(?P<repeat>[*+]|\{\d*,?\d*\})|(?P<plain>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Glob:
    path: re.Pattern[str]
    is_anchored: bool
    is_plain: bool
    """Whether it has no wildcard, so that a bare name in a text is enough."""


@dataclass(slots=True)
class IgnoreRules:
    """What one file says; `base` is its directory."""

    base: str
    globs: list[_Glob] = field(default_factory=list)
    patterns: list[re.Pattern[str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def covers(self, directory: str, name: str = "") -> bool:
        """Whether sessions in a directory, or in a project of this name, are private."""
        return any(self._holds(glob, directory) or glob.path.match(name) for glob in self.globs)

    def matches(self, text: str, directory: str) -> bool:
        """Whether a text matches a pattern or names a file that is ignored."""
        if any(pattern.search(text) for pattern in self.patterns):
            return True
        return bool(self.globs) and any(self._names(token[0], directory) for token in
                                        _TOKEN.finditer(text))  # fmt: skip

    def _names(self, token: str, directory: str) -> bool:
        token = os.path.expanduser(token.rstrip(".:!?"))
        is_path = "/" in token or "." in token
        paths = {os.path.normpath(os.path.join(at, token)) for at in (directory, self.base)}
        return any(
            self._holds(glob, path)
            for glob in self.globs
            if is_path or glob.is_plain
            for path in paths
        )

    def _holds(self, glob: _Glob, path: str) -> bool:
        if glob.is_anchored:
            return glob.path.match(path) is not None
        below = os.path.relpath(path, self.base) if _is_below(path, self.base) else path
        return any(map(glob.path.match, below.strip("/").split("/")))


def read_rules(directory: str) -> IgnoreRules | None:
    """Read the ignore file of a directory; None if there is none."""
    try:
        with open(os.path.join(directory, NAME), encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_BYTES)
    except OSError:
        return None
    rules = IgnoreRules(os.path.realpath(directory))
    for number, line in enumerate(text.splitlines()[:MAX_LINES], 1):
        try:
            _add(rules, line.strip())
        except (re.error, ValueError) as error:
            rules.problems.append(f"{os.path.join(directory, NAME)}, line {number}: {error}")
    return rules


def _add(rules: IgnoreRules, line: str) -> None:
    if not line or line.startswith("#"):
        return
    if len(line) > MAX_CHARACTERS:
        raise ValueError(f"longer than {MAX_CHARACTERS} characters")
    if line.lower().startswith(_PATTERN):
        expression = bounded(line[len(_PATTERN) :].strip())
        rules.patterns.append(re.compile(expression, re.IGNORECASE))
    elif line.startswith("!"):
        raise ValueError("exceptions with ! are not supported")
    else:
        rules.globs.append(_glob(line, rules.base))


def _glob(line: str, base: str) -> _Glob:
    path = re.sub(r"(?:/\*{1,2})?/?$", "", line.removeprefix("./")) or "*"
    is_anchored = "/" in path or path.startswith("~")
    if is_anchored:
        path = os.path.join(base, os.path.expanduser(path).removeprefix("**/"))
        path = path if not line.startswith("**/") else f"*/{line.removeprefix('**/').rstrip('/*')}"
    whole = fnmatch.translate(path).removesuffix(r"\Z").removesuffix(r"\z")
    plain = not set("*?[/") & set(line)
    return _Glob(re.compile(rf"{whole}(?:/.*)?\Z", re.DOTALL), is_anchored, plain)


def bounded(expression: str) -> str:
    """Return an expression whose repeats are bounded; ValueError if it may take long."""
    parts, repeats = list[str](), 0
    for part in _PART.finditer(expression):
        text = part[0]
        if (part["end"] and text != ")") or (part["escape"] and text[1] in "123456789"):
            raise ValueError("a group may be neither repeated nor referred to")
        if part["repeat"]:
            repeats += 1
            text = "".join(_limits(text))
        parts.append(text)
    bounded_expression = "".join(parts)
    if repeats > MAX_REPEATS:
        raise ValueError(f"more than {MAX_REPEATS} repeats")
    if "(?" in bounded_expression.replace("(?:", "") or not bounded_expression:
        raise ValueError("only plain groups are supported" if bounded_expression else "it is empty")
    return bounded_expression


def _limits(repeat: str) -> Iterator[str]:
    low, comma, high = repeat.strip("{}").partition(",") if repeat[0] == "{" else ("", ",", "")
    least = int(low or (repeat == "+"))
    most = int(high or REPEAT) if comma else least
    if max(least, most) > REPEAT:
        raise ValueError(f"repeats more than {REPEAT} times")
    yield f"{{{least},{most}}}"


def _is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")
