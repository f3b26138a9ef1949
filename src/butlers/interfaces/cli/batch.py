"""`butlers memory store-batch`: a file of memories, in as many batches as it takes."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.commands import TenantOption
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    memory_context,
    with_butler,
)
from butlers.interfaces.cli.tables import show_json, show_line, visible

if TYPE_CHECKING:
    from butlers.host.butler import Butler

Lines = Iterator[tuple[int, bytes]]
"""Lines that say something, each with its number."""
OnLine = Callable[[int], None]
"""Told the number of the line up to which a file is done."""

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="One memory a line, as a JSON object. - reads standard input."
    ),
]


def store_batch(
    f_memories: FileArgument,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store the memories of a file, and say which of its lines could not be stored."""
    with _lines(f_memories) as lines, _progress() as on_line:
        results = with_butler(
            butler, home, lambda opened: _store_lines(opened, tenant, lines, on_line)
        )
    failed = [one for one in results if "error" in one]
    stored = len(results) - len(failed)
    if as_json:
        show_json({"stored": stored, "failed": len(failed), "results": results})
    else:
        show_line(f"stored {stored} of {len(results)}")
    for one in failed:
        typer.echo(f"butlers: line {one['line']}: {visible(one['error'])}", err=True)
    if failed:
        raise typer.Exit(1)


async def _store_lines(
    opened: "Butler", tenant: str | None, lines: Lines, on_line: OnLine
) -> list[dict[str, Any]]:
    from butlers.errors import Unavailable
    from butlers.memory.operations.batch import MOST

    ctx, results = memory_context(opened, tenant), list[dict[str, Any]]()
    while some := list(islice(lines, MOST)):
        try:
            results += await _sent(ctx, some, on_line)
        except Unavailable as error:
            raise Unavailable(f"{error}; of the file, {some[0][0] - 1} lines were done") from error
    return results


async def _sent(ctx: Any, lines: list[tuple[int, bytes]], on_line: OnLine) -> list[dict[str, Any]]:
    """What came of some lines, each told by its number."""
    from dataclasses import replace

    from butlers.memory.operations.batch import store_batch as operation

    numbers = [number for number, _ in lines]
    told = replace(ctx, on_progress=lambda done, _: on_line(numbers[done - 1]))
    answer = await operation.perform(told, memories=[_parsed(line) for _, line in lines])
    return [{"line": numbers[one.pop("place")], **one} for one in answer["results"]]


def _parsed(line: bytes) -> Any:
    """What a line says; one that is no JSON stays text, which is refused in its place."""
    # Bytes that are no UTF-8 are replaced.
    text = line.decode("utf-8", "replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


@contextmanager
def _lines(file: str) -> Iterator[Lines]:
    if file == "-":
        yield _numbered(sys.stdin.buffer)
        return
    with open(file, "rb") as opened:
        yield _numbered(opened)


def _numbered(lines: Any) -> Lines:
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())


@contextmanager
def _progress() -> Iterator[OnLine]:
    """How many lines are done, on a terminal; nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda number: None
        return
    columns = TextColumn("{task.completed} lines"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("storing", total=None)
        yield lambda number: bar.update(task, completed=number)
