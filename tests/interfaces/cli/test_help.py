"""Every help text shows how its command is typed, and what it shows would be understood."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from butlers.interfaces.cli import app
from butlers.interfaces.cli.tree import TREE

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


TOP = Path(__file__).parents[3]
NOT_OURS = ("CHANGELOG.md",)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
IN_TICKS = re.compile(r"`butlers ([a-z][a-z -]*)")
IN_FENCE = re.compile(r"^(?:\$ )?butlers ([a-z][a-z -]*)", re.MULTILINE)


def named_commands() -> Iterator[tuple[str, str]]:
    """Every command that the docs, the source and its messages name, with the file."""
    pages = [*TOP.glob("*.md"), *TOP.glob("docs/**/*.md"), *TOP.glob("examples/**/*.md")]
    for file in [file for file in pages if file.name not in NOT_OURS]:
        text = file.read_text("utf-8")
        fenced = "\n".join(FENCE.findall(text))
        for name in [*IN_TICKS.findall(text), *IN_FENCE.findall(fenced)]:
            yield file.name, name
    for file in TOP.glob("src/**/*"):
        if file.suffix in (".py", ".toml", ".html", ".sql"):
            for name in IN_TICKS.findall(file.read_text("utf-8")):
                yield file.name, name


def unknown_word(name: str) -> str:
    """The first word of a command that does not exist; empty if all do."""
    group = ROOT
    for word in name.split():
        known = children(group)
        if not known:
            return ""
        if word not in known:
            return "" if group is not ROOT and group.invoke_without_command else word
        group = known[word]
    return ""


def test_every_command_that_is_named_somewhere_exists() -> None:
    named = list(named_commands())
    assert len(named) > 200
    assert [(file, name) for file, name in named if unknown_word(name)] == []
    assert unknown_word("memory recall") == "recall"


def test_names_of_earlier_versions_lead_to_commands_that_exist() -> None:
    for old, new in TREE["renamed"].items():
        assert unknown_word(old) == old.split()[1] or old == "memory list entities", old
        assert tuple(new.split()) in ALL, new
    context = typer.Context(ROOT, info_name="butlers", **HELP)
    name, command, rest = ROOT.resolve_command(context, ["memory", "entity", "get", "1f0c9a77"])
    assert (name, command, rest) == ("entity", ALL["entity",], ["show", "1f0c9a77"])


def test_groups_are_small_and_their_help_is_whole() -> None:
    for path, command in ALL.items():
        names = children(command)
        sections = TREE["sections"].values() if not path else [names]
        assert all(len(section) <= 12 for section in sections), path
        if names:
            assert "..." not in help_of(path).partition("COMMAND [ARGS]...")[2], path
    placed = {name for section in TREE["sections"].values() for name in section}
    assert set(children(ROOT)) <= placed
