"""The tree of commands: sections of the help, and groups made from operations on first use."""

from collections.abc import Callable
from functools import cache
from typing import Any

import typer
from typer.core import TyperGroup

from butlers.kernel.word_tables import load_tables

TREE = load_tables(__file__)
BUILDERS: dict[str, Callable[[], typer.Typer]] = {}
"""Make the commands of a module from its operations; all but the notes are the memory's."""
_WHOLE = 1_000
_LONGEST_NAME = 3
"""Words of the longest name of an earlier version."""


class Group(TyperGroup):
    """A group whose help shows the whole first sentence of each command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, wrapped."""
        self._list(formatter, "Commands", [(name, self._line(name)) for name in self.commands])

    def _line(self, name: str) -> str:
        return self.commands[name].get_short_help_str(_WHOLE)

    def _list(self, formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


class Root(Group):
    """The program: its help has sections, and commands made from operations are loaded late."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return every name, those made from operations last."""
        return [*self.commands, *(name for name in TREE["operations"] if " " not in name)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; one made from an operation loads them all."""
        found = super().get_command(ctx, cmd_name)
        return from_operations(cmd_name) if found is None else found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of what was typed, by its name in earlier versions too."""
        for count in range(_LONGEST_NAME, 1, -1):
            if new := TREE["renamed"].get(" ".join(args[:count])):
                return super().resolve_command(ctx, [*new.split(), *args[count:]])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by section; one without a section comes last."""
        left = dict.fromkeys(self.list_commands(ctx))
        for title, names in {**TREE["sections"], "More": [*left]}.items():
            shown = [name for name in names if name in left]
            left = {name: None for name in left if name not in shown}
            self._list(formatter, title, [(name, self._line(name)) for name in shown])

    def _line(self, name: str) -> str:
        return TREE["operations"].get(name) or super()._line(name)


@cache
def from_operations(name: str) -> Any:
    """Return a command or group that is made from operations; None if there is none."""
    if name not in TREE["operations"]:
        return None
    return _built(BUILDERS.get(name, BUILDERS["memory"])).commands[name]


@cache
def _built(build: Any) -> Any:
    return typer.main.get_command(build())


def group_at(groups: dict[str, typer.Typer], path: str, epilog: str = "") -> typer.Typer:
    """Return the group at a path, made with those above it where it is missing."""
    if path not in groups:
        # Markup would alter stored text and brackets.
        groups[path] = typer.Typer(
            cls=Group,
            no_args_is_help=True,
            help=TREE["operations"].get(path, ""),
            epilog=epilog,
            rich_markup_mode=None,
        )
        if path:
            above, _, name = path.rpartition(" ")
            group_at(groups, above, epilog).add_typer(groups[path], name=name)
    return groups[path]
