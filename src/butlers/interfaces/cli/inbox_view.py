"""Print what waits for a person, within 80 columns."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from butlers.interfaces.cli.output import show_line, visible, when

_WIDTH = 74


def show_inbox(items: Sequence[Mapping[str, Any]]) -> None:
    """Print everything that waits, each with what can be decided."""
    for number, item in enumerate(items, 1):
        show_item(item, f"{number}/{len(items)}")
        for decision in item["decisions"]:
            show_line(f"{decision['command']}   # {decision['does']}", indent=2)
        typer.echo()
    if not items:
        show_line("nothing waits for you")


def show_item(item: Mapping[str, Any], position: str) -> None:
    """Print one thing that waits: what it is, both sides, why, and where it comes from."""
    show_line(f"{position}  {item['what']}", colour="yellow")
    source = f"{item['source']}, " if item["source"] else ""
    texts = (item["says"], item["other"], f"why: {item['why']}", f"{source}{when(item['since'])}")
    for text in filter(None, texts):
        for number, line in enumerate(textwrap.wrap(visible(text), _WIDTH)):
            show_line(line, indent=4 if number else 2)
