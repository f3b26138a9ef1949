"""Find every expression of the package, and every function that reads a text of a caller."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, date, datetime
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import butlers
from butlers.errors import ButlersError

_DEEPEST = 5
_SCANS = frozenset({"finditer", "findall", "sub", "subn", "split"})
_LOOKS = frozenset({"search", "match", "fullmatch"})
_NOT_LOADED = ("__main__", ".migrations", ".alembic")
Read = Callable[[str], object]
Found = tuple[str, re.Pattern[str], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression, where it stands, and how it is used there."""

    name: str
    pattern: re.Pattern[str]
    uses: frozenset[str]

    def readers(self) -> Iterator[tuple[str, Read]]:
        """Yield what reads a text by it; what goes through a whole text does so once."""
        if self.uses & _SCANS:
            yield "finditer", lambda text: sum(1 for _ in self.pattern.finditer(text))
        yield from ((use, getattr(self.pattern, use)) for use in sorted(self.uses & _LOOKS))


@cache
def modules() -> list[ModuleType]:
    """Import every module of the package."""
    found = pkgutil.walk_packages(butlers.__path__, "butlers.")
    names = [each.name for each in found if not any(word in each.name for word in _NOT_LOADED)]
    return [importlib.import_module(name) for name in names]


def expressions() -> list[Expression]:
    """Return every expression: of modules, of their tables, and written where it is used."""
    known: dict[tuple[str, int], Expression] = {}
    for name, pattern, its_uses in (*_of_modules(), *_inline(), *_made_later()):
        key = (pattern.pattern, pattern.flags)
        before = known[key].uses if key in known else frozenset()
        known[key] = Expression(name, pattern, its_uses | before)
    return list(known.values())


def _of_modules() -> Iterator[Found]:
    for module in modules():
        uses = _uses_by_name(module.__name__)
        for name, value in list(vars(module).items()):
            for pattern in _patterns_in(value):
                its_uses = frozenset(uses[name]) or frozenset({"search"})
                yield f"{module.__name__}.{name}", pattern, its_uses


def _patterns_in(value: object, depth: int = _DEEPEST) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif depth and isinstance(value, Mapping):
        yield from (found for each in value.values() for found in _patterns_in(each, depth - 1))
    elif depth and isinstance(value, list | tuple | set | frozenset):
        yield from (found for each in value for found in _patterns_in(each, depth - 1))
    elif depth and is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in fields(value))
        each_value = (getattr(value, name, None) for name in names)
        yield from (found for each in each_value for found in _patterns_in(each, depth - 1))


@cache
def _trees() -> dict[str, ast.Module]:
    files = {module.__name__: module.__file__ for module in modules() if module.__file__}
    return {name: ast.parse(Path(file).read_text("utf-8")) for name, file in files.items()}


def _uses_by_name(module: str) -> Mapping[str, set[str]]:
    """Say by which methods a module uses each of its names; others are searched with."""
    uses: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(_trees().get(module, ast.Module([], []))):
        if isinstance(node, ast.Attribute) and (name := _name_of(node.value)):
            uses[name] |= {node.attr} & (_SCANS | _LOOKS)
    return uses


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _name_of(node.value)
    return node.id if isinstance(node, ast.Name) else ""


def _inline() -> Iterator[Found]:
    """Yield the expressions written in a call such as `re.sub(...)`, or named there."""
    for name, tree in _trees().items():
        texts = vars(importlib.import_module(name))
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=use), args=[written, *_]
                ) if use in _SCANS | _LOOKS:
                    text = _text_of(written, texts)
                    if isinstance(text, str):
                        yield f"{name}:{node.lineno}", re.compile(text), frozenset({use})


def _text_of(written: ast.expr, names: Mapping[str, object]) -> object:
    if isinstance(written, ast.Name):
        return names.get(written.id)
    return written.value if isinstance(written, ast.Constant) else None


def _made_later() -> Iterator[Found]:
    from butlers.memory.policy import suspicion  # noqa: PLC0415

    yield "suspicion.orders", suspicion._any_of("orders"), frozenset({"search"})


# Their functions read texts and touch nothing else.
_READING = ("butlers.kernel", "butlers.memory.policy", "butlers.sessions", "butlers.notebook")
_TOUCHES = frozenset(
    {"asyncio", "os", "pathlib", "socket", "sqlite3", "subprocess", "shutil", "tempfile"}
)
# They import one of these for a name of a type, or for another function.
_YET_READING = frozenset(
    {
        "butlers.sessions.essence",
        "butlers.sessions.pieces",
        "butlers.sessions.privacy_words",
        "butlers.sessions.prompts",
        "butlers.portability.documents",
    }
)
# What is given here is written by us: an expression, a table, the name of a field.
_OURS = frozenset({"expression", "filled", "load_tables", "build_prompt"})
_OWN = {"field": "content", "name": "subject", "kind": "fact", "butler": "general"}
_PLACES = frozenset({"home", "path", "directory"})
_NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def readers() -> dict[str, Read]:
    """Return each function that reads texts of a caller and touches nothing else."""
    found: dict[str, Read] = {}
    for module in modules():
        name = module.__name__
        is_plain = name.startswith(_READING) and not _imports(name) & _TOUCHES
        if is_plain or name in _YET_READING:
            found |= dict(_readers_of(module))
    return found


def _imports(module: str) -> set[str]:
    names = set[str]()
    for node in ast.walk(_trees()[module]):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _readers_of(module: ModuleType) -> Iterator[tuple[str, Read]]:
    for name, function in vars(module).items():
        plain = inspect.unwrap(function) if callable(function) else function
        is_own = inspect.isfunction(plain) and plain.__module__ == module.__name__
        if not is_own or name.startswith("_") or name in _OURS:
            continue
        if (read := _reader(plain)) is not None:
            yield f"{module.__name__}.{name}", read


def _reader(function: Callable[..., object]) -> Read | None:
    """Return a function that passes a text for every argument that takes one, None if none does."""
    kinds = get_type_hints(function)
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if _PLACES & {each.name for each in needed}:
        return None
    makers = [(each, _maker(each.name, kinds[each.name])) for each in needed]
    if not any(_is_text(kinds[each.name]) for each in needed) or None in dict(makers).values():
        return None
    return partial(_called, function, makers)


def _called(function: Callable[..., object], makers: list[Any], text: str) -> None:
    given = [make(text) for each, make in makers if each.kind is not each.KEYWORD_ONLY]
    named = {each.name: make(text) for each, make in makers if each.kind is each.KEYWORD_ONLY}
    with suppress(ButlersError, ValueError, LookupError, RecursionError):
        result = function(*given, **named)
        if inspect.isgenerator(result):
            deque(result, maxlen=0)


def _is_text(kind: Any) -> bool:
    return kind in (str, str | None) or (get_origin(kind) in _MANY and get_args(kind)[:1] == (str,))


_MANY = (Iterable, Sequence, list, tuple)


def _maker(name: str, kind: Any) -> Read | None:
    """Return what makes the value of an argument from a text."""
    if _is_text(kind):
        if kind not in (str, str | None):
            return lambda text: [text]
        return (lambda _: _OWN[name]) if name in _OWN else (lambda text: text)
    if get_origin(kind) is Literal:
        return lambda _: get_args(kind)[0]
    plain = {datetime: _NOW, date: _NOW.date(), int: 100, float: 0.5, bool: True}
    if kind in plain:
        return lambda _: plain[kind]
    empty = {Mapping: dict, Set: frozenset, set: set, frozenset: frozenset, dict: dict}
    if get_origin(kind) in empty:
        return lambda _: empty[get_origin(kind)]()
    return None
