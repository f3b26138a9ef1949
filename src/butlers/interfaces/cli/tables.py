"""Tables on a terminal, plain aligned text everywhere else; stored text never steers either."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import typer

# What terminals obey: control characters, and the bidirectional ones that reorder a line.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_SHORT_ID = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; one that wraps takes the room that is left."""

    title: str
    justify: Literal["left", "right"] = "left"
    wraps: bool = False


def on_terminal() -> bool:
    """Whether a person is looking."""
    return sys.stdout.isatty()


def visible(text: str) -> str:
    """The text with everything a terminal would obey written out, its lines kept."""
    unified = text.replace("\r\n", "\n")
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], unified)


def one_line(text: str) -> str:
    """The text on a single line, everything a terminal would obey written out."""
    return visible(" ".join(text.split()))


def short_id(memory_id: str) -> str:
    """As much of an id as commands need on a terminal, all of it elsewhere."""
    return memory_id[:_SHORT_ID] if on_terminal() else memory_id


def show_json(value: Any) -> None:
    """Print JSON, instants in ISO format; what a terminal would obey is escaped in it."""
    typer.echo(json.dumps(value, indent=2, default=lambda one: one.isoformat()))


def show_line(text: str, colour: str | None = None, indent: int = 0) -> None:
    """Print a sentence, coloured where somebody looks."""
    line = _printable(" " * indent + one_line(text))
    typer.echo(typer.style(line, fg=colour) if colour and on_terminal() else line)


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells, each cell on one line where nobody looks."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    if on_terminal():
        _show_rich_table(columns, cells)
        return
    for row in _aligned(columns, [[column.title for column in columns], *cells]):
        typer.echo(_printable(row))


def show_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print names and values; a value of several lines is kept together by indenting."""
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        first, *more = visible(value).split("\n")
        label = typer.style(name.ljust(width), bold=True) if on_terminal() else name.ljust(width)
        for line in (f"{label}  {first}", *(f"{'':{width}}  {line}" for line in more)):
            typer.echo(_printable(line.rstrip()))


def _show_rich_table(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            Text(column.title),
            justify=column.justify,
            no_wrap=not column.wraps,
            overflow="fold",
            ratio=1 if column.wraps else None,
        )
    for row in cells:
        # As Text, what is stored cannot be taken for markup.
        table.add_row(*(Text(_printable(cell)) for cell in row))
    Console(markup=False, highlight=False, emoji=False).print(table)


def _aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if column.justify == "right" else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _printable(text: str) -> str:
    """The text as far as the output's encoding can carry it, the rest written out."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
