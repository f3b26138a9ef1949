"""Every help text shows how its command is typed, and what it shows would be understood."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
import typer.main

from butlers.interfaces.cli import app

ROOT = typer.main.get_command(app)
# As the root gives them on: a command remembers the names by which it was first asked for help.
HELP: Any = {"help_option_names": ["-h", "--help"]}


def children(command: Any) -> dict[str, Any]:
    """The commands of a group, those made when asked for too."""
    if not hasattr(command, "list_commands"):
        return {}
    context = typer.Context(command, info_name="group", **HELP)
    names = command.list_commands(context)
    return {name: command.get_command(context, name) for name in names}


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in children(command).items():
        yield from commands(child, *path, name)


ALL = dict(commands(ROOT))


def help_of(path: tuple[str, ...]) -> str:
    context = typer.Context(ALL[path], info_name=" ".join(("butlers", *path)), **HELP)
    return ALL[path].get_help(context)


def examples(path: tuple[str, ...]) -> list[str]:
    _, _, shown = help_of(path).partition("  Example:\n")
    return [line.strip() for line in shown.splitlines() if line.strip()]


def test_the_whole_tree_is_walked() -> None:
    assert {
        (),
        ("up",),
        ("jobs", "run"),
        ("token", "revoke"),
        ("logs",),
        ("memory", "list", "facts"),
        ("notes", "save"),
    } <= set(ALL)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_help_text_has_an_example_that_is_understood(path: tuple[str, ...]) -> None:
    shown = examples(path)
    assert shown, f"no line `Example:` in the help of {' '.join(path)}"
    for line in shown:
        nested = re.search(r"\$\((.+)\)", line)
        words = shlex.split(nested[1] if nested else line)
        assert words[: 1 + len(path)] == ["butlers", *path]
        understood(words[1:])


def understood(words: list[str]) -> None:
    """Parse a command as the program would, without running it."""
    command: Any = ROOT
    context = typer.Context(ROOT, info_name="butlers", **HELP)
    while words and words[0] in (known := children(command)):
        command = known[words[0]]
        name, *words = words
        context = typer.Context(command, parent=context, info_name=name)
    command.parse_args(context, words)


def test_an_example_that_is_wrong_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        understood(["up", "--fly"])
    with pytest.raises(Exception, match="Missing parameter"):
        understood(["token", "revoke"])
