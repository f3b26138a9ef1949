"""Print tables, fields and JSON for people, with control characters in stored text escaped."""

import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import zip_longest
from operator import sub
from textwrap import wrap
from typing import Any

import typer

from butlers.interfaces.cli.shell import current_shell

# Control characters, and the bidirectional ones that reorder a line.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_SHORT_ID, _NARROWEST, _ROOMY = 8, 10, 20
EXCERPT = 280
_FLAGS = {"in_doubt": "in doubt", "outdated_by": "outdated"}


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def visible(text: str) -> str:
    """Escape control characters; keep line breaks."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Put a text on a single line, with control characters escaped."""
    return visible(" ".join(text.split()))


def short_id(memory_id: str) -> str:
    """Shorten an id on a terminal (commands accept its beginning); keep it whole elsewhere."""
    return memory_id[:_SHORT_ID] if on_terminal() else memory_id


def show_json(value: Any) -> None:
    """Print JSON, with times in ISO format and control characters escaped."""
    typer.echo(json.dumps(value, indent=2, default=lambda instant: instant.isoformat()))


def show_line(text: str, colour: str | None = None, indent: int = 0) -> None:
    """Print one line, coloured on a terminal."""
    line = printable(" " * indent + one_line(text))
    typer.echo(typer.style(line, fg=colour) if colour and on_terminal() else line)


def show_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    wraps: Collection[str] = (),
) -> None:
    """Print a table; outside a terminal each cell stays on one line.

    `right` names the columns aligned to the right, `wraps` those that share the remaining width.
    """
    cells = [titles, *([printable(one_line(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if on_terminal():
        widths = _narrowed(cells, widths, wraps)
    heading, *lines = (
        "  ".join(
            (cell.rjust if title in right else cell.ljust)(width)
            for title, cell, width in zip(titles, line, widths, strict=True)
        ).rstrip()
        for row in cells
        for line in _wrapped(row, widths)
    )
    typer.echo(typer.style(heading, bold=True) if on_terminal() else heading)
    for line in lines:
        typer.echo(line)


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> Iterator[Sequence[str]]:
    """Break the cells of a row that are too long, between words where there are any."""
    cells = zip(row, widths, strict=True)
    columns = [wrap(cell, width) if len(cell) > width else [cell] for cell, width in cells]
    return zip_longest(*columns, fillvalue="")


# Narrows columns until the table fits: first those that may wrap, words whole if possible.
def _narrowed(
    cells: Sequence[Sequence[str]], widths: Sequence[int], wraps: Collection[str]
) -> list[int]:
    narrowed, words = (
        list(widths),
        [max(map(_longest_word, column)) for column in zip(*cells, strict=True)],
    )
    columns = zip(cells[0], words, widths, strict=True)
    roomy = [max(_ROOMY, word) if title in wraps else width for title, word, width in columns]
    excess = sum(widths) + 2 * (len(widths) - 1) - current_shell().width
    for floors in (roomy, words, [_NARROWEST] * len(words)):
        while excess > 0 and (spare := max(map(sub, narrowed, floors))) > 0:
            widest = [*map(sub, narrowed, floors)].index(spare)
            narrowed[widest], excess = narrowed[widest] - 1, excess - 1
    return narrowed


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def show_fields(*fields: tuple[str, str]) -> None:
    """Print names and values, except empty ones; further lines of a value are indented."""
    filled = [(name.replace("_", " "), value) for name, value in fields if value]
    width = max((len(name) for name, _ in filled), default=0)
    for name, value in filled:
        first, *more = visible(value).split("\n")
        label = typer.style(name.ljust(width), bold=True) if on_terminal() else name.ljust(width)
        for line in (f"{label}  {first}", *(f"{'':{width}}  {line}" for line in more)):
            typer.echo(printable(line.rstrip()))


@contextmanager
def progress_bar(
    label: str = "", *, unit: str = "", enabled: bool = True, transient: bool = True
) -> Iterator[Callable[..., None]]:
    """Show progress on a terminal; yields what updates it: completed, total, description."""
    is_shown, shown = enabled and sys.stderr.isatty(), {"description": label}

    def update(**values: Any) -> None:
        shown.update(values)
        if is_shown:
            typer.echo(f"\r\033[K{_progress_text(shown)} {unit}", err=True, nl=False)

    try:
        yield update
    finally:
        if is_shown and len(shown) > 1:
            typer.echo("\r\033[K" if transient else "", err=True, nl=not transient)


def _progress_text(shown: Mapping[str, Any]) -> str:
    of = f" of {shown['total']:,}" if shown.get("total") else ""
    return f"{shown['description']} {shown.get('completed', 0):,}{of}"


def printable(text: str) -> str:
    """Escape the characters that the output's encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def excerpt(memory: Mapping[str, Any]) -> str:
    """Put the content of a memory or note on one line; a long one is cut."""
    text = str(memory["content"])
    if memory.get("predicate") is not None:
        text = f"{memory['subject']} · {memory['predicate']}: {text}"
    cut = text if len(text) <= EXCERPT else f"{text[:EXCERPT].rstrip()}…"
    flags = [word for key, word in _FLAGS.items() if memory.get(key)]
    flags += ["reported harmful"] if is_reported(memory) else []
    return cut + "".join(f" ({word})" for word in flags)


def is_reported(memory: Mapping[str, Any]) -> bool:
    """Whether a memory is a person's rule that was reported harmful."""
    metadata = memory.get("metadata")
    return isinstance(metadata, dict) and "reported_harmful" in metadata


def when(instant: str | datetime | None) -> str:
    """Format a UTC time to the minute; empty for none."""
    if isinstance(instant, str):
        instant = datetime.fromisoformat(instant)
    return f"{instant:%Y-%m-%d %H:%M}" if instant else ""


def to_the_second(instant: datetime) -> str:
    """Format a UTC time to the second."""
    return f"{instant:%Y-%m-%d %H:%M:%S}"


def size(count: int) -> str:
    """Format a number of bytes."""
    for unit, bytes_each in (("GB", 1e9), ("MB", 1e6)):
        if count >= bytes_each:
            return f"{count / bytes_each:.1f} {unit}"
    return f"{count / 1e3:.1f} kB"


def number(value: float | None) -> str:
    """Format a score; a dash for none."""
    return "–" if value is None else f"{value:.2f}"


def plain(value: Any) -> str:
    """Format any value: yes or no, a short number, a list of words, or JSON."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def listed(value: Any) -> str:
    """Format any value, with one line for each object of a list."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return "\n".join("  ".join(plain(field) for field in item.values()) for item in value)
    return plain(value)
