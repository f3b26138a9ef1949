"""Print what waits for a person, within 80 columns."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from butlers.interfaces.cli.output import printable, short_id, show_line, visible, when

NOTHING = "nothing waits for you"
_WIDTH = 76


def show_inbox(items: Sequence[Mapping[str, Any]]) -> None:
    """Print everything that waits, each with what can be decided."""
    for number, item in enumerate(items, 1):
        show_item(item, f"{number}/{len(items)}")
        for decision in item["decisions"]:
            command = decision["command"].replace(item["id"], short_id(item["id"]))
            show_line(f"{command}   # {decision['does']}", indent=2)
        typer.echo()
    if not items:
        show_line(NOTHING)


def show_item(item: Mapping[str, Any], position: str) -> None:
    """Print one thing that waits, under its place in the list."""
    show_line(f"{position}  {item['what']}", colour="yellow")
    for line in item_lines(item):
        typer.echo(f"  {line}")


def item_lines(item: Mapping[str, Any]) -> list[str]:
    """Put one thing that waits into lines: both sides, why it waits, and where it comes from."""
    source = f"{item['source']}, " if item["source"] else ""
    texts = (item["says"], item["other"], f"why: {item['why']}", f"{source}{when(item['since'])}")
    return [line for text in filter(None, texts) for line in wrapped(text)]


def wrapped(text: str) -> list[str]:
    """Wrap a text for a terminal; control characters are escaped, further lines indented."""
    lines = textwrap.wrap(visible(text), _WIDTH, subsequent_indent="  ")
    return list(map(printable, lines))
