"""Make commands from the operation table, lazily, when one of them is called."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

from butlers.errors import ButlersError, InvalidInput
from butlers.interfaces.cli.options import ButlerOption, HomeOption, JsonOption, example
from butlers.interfaces.cli.output import show_json
from butlers.interfaces.cli.shell import current_shell
from butlers.interfaces.cli.tree import group_at

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from butlers.operation import Operation

# Fields whose option has another name.
_OPTIONS = {
    "types": ("--type",),
    "tags": ("--tag",),
    "aliases": ("--alias",),
    "limit": ("--limit", "-n"),
    "mode": ("--mode", "-m"),
    "category": ("--category", "-c"),
    "token_budget": ("--token-budget", "--budget"),
    "entity_id": ("--entity-id", "--entity"),
    "session_id": ("--session-id", "--session"),
    "butler": ("--for-butler",),
    "everybody": ("--all",),
}
_IDS, _KINDS = "ids", ("fact", "rule", "episode")
_ONE_ID = "The id, or at least its first 6 digits"
_STDIN = " - reads standard input."


Ask = Callable[["Operation", dict[str, Any], dict[str, Any]], Any]
"""Performs an operation, given its target and arguments; returns the answer as JSON data."""
View = Callable[[Any, Mapping[str, Any]], None]
"""Prints an answer for people, given the arguments of the call."""


def commands(
    operations: "Iterable[Operation]",
    ask: Ask,
    views: Mapping[str, View],
    options: Mapping[str, Any],
    written: Mapping[str, Callable[..., None]] | None = None,
    within: str = "",
) -> typer.Typer:
    """Make the commands of a module; `options` say for which tenant and agent.

    The view named "" is for operations without one of their own. `written` holds commands that
    are not made from their operation. All are made in the group `within`.
    """
    groups = dict[str, typer.Typer]()
    for operation in operations:
        if "cli" in operation.left_out:
            continue
        path, _, name = f"{within}{operation.command}".rpartition(" ")
        epilog = example(f"butlers {within}{operation.example}")
        command = (written or {}).get(operation.name) or _command(
            operation, ask, views.get(operation.name, views[""]), options
        )
        words = _RETURNS.sub("", operation.words).strip()
        group_at(groups, path, epilog).command(name, help=words, epilog=epilog)(command)
    return group_at(groups, "")


# "Returns …" is for programs; a person sees the result.
_RETURNS = re.compile(r"^Returns .*", re.MULTILINE | re.DOTALL)


def _command(
    operation: "Operation", ask: Ask, view: View, options: Mapping[str, Any]
) -> Callable[..., None]:
    def run(**typed: Any) -> None:
        as_json = typed.pop("as_json")
        target = {name: typed.pop(name) for name in ("butler", "home", *options)}
        each, failed = _calls(operation, typed), False
        for given in each:
            try:
                answer = ask(operation, target, given)
                show_json(answer) if as_json else view(answer, given)
            except ButlersError as error:
                if len(each) == 1:
                    raise
                failed = True
                typer.echo(f"butlers: {error}", err=True)
        if failed:
            raise typer.Exit(1)

    parameters = [
        *_fields(operation),
        _parameter("butler", ButlerOption, "general"),
        _parameter("home", HomeOption, None),
        *(_parameter(name, kind, None) for name, kind in options.items()),
        _parameter("as_json", JsonOption, False),
    ]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _fields(operation: "Operation") -> list[inspect.Parameter]:
    arguments, options, fields = [], [], dict(operation.fields)
    if (has_kind := "memory_type" in fields) or _takes_several(operation):
        for name in {"memory_type", operation.arguments[0]} & fields.keys():
            del fields[name]
        arguments.append(_parameter(f"f_{_IDS}", _ids(operation, has_kind)))
    for name, field in fields.items():
        if name in ("agent", "detail"):  # agent is an option of its own, detail follows from --json
            continue
        kind = _kind(field.annotation)
        if name in operation.arguments and (field.is_required() or kind is list):
            arguments.append(_argument(name, field, kind))
        else:
            options.append(_option(operation, name, field, kind))
    return [*arguments, *options]


def _takes_several(operation: "Operation") -> bool:
    """Whether it changes something that is named by an id alone, so that several can be given."""
    names = [name for name in operation.arguments if name != "memory_type"]
    return operation.effect != "reads" and len(names) == 1 and names[0].endswith("_id")


def _ids(operation: "Operation", has_kind: bool) -> Any:
    several = "; several ids, one after another" if _takes_several(operation) else ""
    shown = "[fact|rule|episode] ID" if has_kind else "ID"
    help = f"{_ONE_ID}{several}{'; the kind is optional' if has_kind else ''}."
    return Annotated[
        list[str], typer.Argument(metavar=f"{shown}{'...' if several else ''}", help=help)
    ]


def _argument(name: str, field: "FieldInfo", kind: type) -> inspect.Parameter:
    help = (field.description or "").rstrip(".") + "." + (_STDIN if name == "content" else "")
    argument = typer.Argument(metavar=name.upper(), help=help)
    if kind is list:
        return _parameter(f"f_{name}", Annotated[list[str] | None, argument], None)
    return _parameter(f"f_{name}", Annotated[kind, argument])


def _option(operation: "Operation", name: str, field: "FieldInfo", kind: type) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    names = _OPTIONS.get(name, (f"{flag}/--no-{flag[2:]}",) if field.default is True else (flag,))
    default = "the butler's" if name in operation.defaults else field.default
    shown = "" if default in (None, False, True, "") else f" [default: {default}]"
    help = (field.description or "").rstrip(".") + shown + "."
    annotation: Any = list[str] | None if kind is list else kind | None
    return _parameter(f"f_{name}", Annotated[annotation, typer.Option(*names, help=help)], None)


def _kind(annotation: Any) -> type:
    """The type of a field on the command line: number, switch, several words, or text."""
    parts = [part for part in (get_args(annotation) or (annotation,)) if part is not type(None)]
    kind: Any = parts[0] if get_origin(annotation) not in (list, dict) else annotation
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is list:
        return list
    return kind if kind in (int, float, bool) else str


def _calls(operation: "Operation", typed: dict[str, Any]) -> list[dict[str, Any]]:
    """Turn what was typed into the operation's arguments, once for each id."""
    given = {name.removeprefix("f_"): value for name, value in typed.items() if value is not None}
    if given.get("content") == "-":
        given["content"] = current_shell().stdin().read().decode("utf-8", "replace")
    words = given.pop(_IDS, None)
    given = {name: _parsed(operation, name, value) for name, value in given.items()}
    if words is None:
        return [given]
    if words[0] in _KINDS and "memory_type" in operation.fields:
        given["memory_type"], *words = words
    if not words or (len(words) > 1 and operation.effect == "reads"):
        raise InvalidInput(f"found {len(words)} ids; valid is one, after fact, rule or episode")
    return [{**given, operation.arguments[0]: word} for word in dict.fromkeys(words)]


def _parsed(operation: "Operation", name: str, value: Any) -> Any:
    """Parse an argument that takes an object as JSON."""
    annotation = operation.fields[name].annotation
    kinds = (annotation, *get_args(annotation))
    if not isinstance(value, str) or not any(get_origin(kind) is dict for kind in kinds):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise InvalidInput(
            f'{name}: found {value[:80]!r}; valid is a JSON object such as {{"a": 1}}'
        ) from None


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
