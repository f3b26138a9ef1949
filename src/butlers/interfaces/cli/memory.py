"""`butlers memory` and `butlers project`: commands made from the memory's operations."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.commands import TenantOption, commands, lazy_group
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    example,
    memory_context,
    with_butler,
)
from butlers.interfaces.cli.output import show_json, show_line, visible

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.operation import Operation

Lines = Iterator[tuple[int, bytes]]
"""Lines of a file that are not blank, each with its number."""
OnLine = Callable[[int], None]
"""Called with the number of the last line that is done."""
FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="One memory per line, as a JSON object. - reads standard input."
    ),
]
_PROJECT = "project "
_NOT_THERE = {
    "get": "{kind}",
    "explain": "{kind}",
    "history": "memory",
    "confirm": "current {fact_or_rule}",
    "forget": "{kind} left to forget with id",
    "restore": "forgotten {fact_or_rule}",
    "keep": "{fact_or_rule} in doubt with id",
}


def _build() -> typer.Typer:
    from butlers.interfaces.cli.jobs import cost
    from butlers.interfaces.cli.memory_views import VIEWS
    from butlers.memory.operations import OPERATIONS

    written = {"store_batch": store_batch}
    ours = [each for each in OPERATIONS if not each.command.startswith(_PROJECT)]
    app = commands(ours, ask, VIEWS, "butlers memory", {"tenant": TenantOption}, written)
    app.command("cost", epilog=example("butlers memory cost --days 7"))(cost)
    return app


app = lazy_group(
    "Store, search and manage what a butler remembers.",
    'butlers memory recall "what should I cook for Ann?"',
    _build,
)


def _build_projects() -> typer.Typer:
    from dataclasses import replace

    from butlers.interfaces.cli.memory_views import VIEWS
    from butlers.memory.operations import OPERATIONS

    ours = [
        replace(each, command=each.command.removeprefix(_PROJECT))
        for each in OPERATIONS
        if each.command.startswith(_PROJECT)
    ]
    return commands(ours, ask, VIEWS, "butlers", {"tenant": TenantOption})


projects = lazy_group(
    "Projects: which memories a repository shares, and with whom.",
    "butlers project list",
    _build_projects,
)


def ask(operation: "Operation", target: dict[str, Any], given: dict[str, Any]) -> Any:
    """Perform an operation of a butler's memory; NotFound where it finds or changes nothing."""
    from dataclasses import replace

    from butlers.operation import Detail

    if "detail" in operation.fields:
        given = {**given, "detail": Detail.FULL}
    operation.parse(given)  # refuse bad input before a database is opened

    async def perform(opened: "Butler") -> Any:
        context = memory_context(opened, target["tenant"])
        with _progress(operation) as on_progress:
            return await operation.perform(replace(context, on_progress=on_progress), **given)

    answer = with_butler(target["butler"], target["home"], perform)
    _refuse_empty(operation, answer, target["butler"], given)
    return answer


def _refuse_empty(operation: "Operation", answer: Any, butler: str, given: dict[str, Any]) -> None:
    from butlers.errors import NotFound

    if answer is None and operation.name not in _NOT_THERE:
        raise NotFound(f"butler {butler} has nothing for this tenant that matches")
    empty = not answer or (isinstance(answer, dict) and list(answer.values()) == [False])
    if not empty or operation.name not in _NOT_THERE:
        return
    kind = given.get("memory_type")
    names = {"kind": kind or "memory", "fact_or_rule": kind or "fact or rule"}
    what = _NOT_THERE[operation.name].format(**names)
    raise NotFound(
        f"butler {butler} has no {what} {given['memory_id']} for this tenant; "
        "`butlers memory search` shows ids"
    )


@contextmanager
def _progress(operation: "Operation") -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal while memories are embedded."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if operation.name != "reembed" or not console.is_terminal:
        yield lambda done, total: None
        return
    with Progress(console=console) as bar:
        task = bar.add_task("embedding", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def store_batch(
    f_memories: FileArgument,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store the memories of a file, and report the lines that could not be stored."""
    with _lines(f_memories) as lines, _line_progress() as on_line:
        results = with_butler(
            butler, home, lambda opened: _store_lines(opened, tenant, lines, on_line)
        )
    failed = [result for result in results if "error" in result]
    stored = len(results) - len(failed)
    if as_json:
        show_json({"stored": stored, "failed": len(failed), "results": results})
    else:
        show_line(f"stored {stored} of {len(results)}")
    for result in failed:
        typer.echo(f"butlers: line {result['line']}: {visible(result['error'])}", err=True)
    if failed:
        raise typer.Exit(1)


async def _store_lines(
    opened: "Butler", tenant: str | None, lines: Lines, on_line: OnLine
) -> list[dict[str, Any]]:
    from butlers.errors import Unavailable
    from butlers.memory.operations.batch import MOST

    context, results = memory_context(opened, tenant), list[dict[str, Any]]()
    while chunk := list(islice(lines, MOST)):
        try:
            results += await _store_chunk(context, chunk, on_line)
        except Unavailable as error:
            raise Unavailable(f"{error}; the first {chunk[0][0] - 1} lines are done") from error
    return results


async def _store_chunk(
    context: Any, lines: list[tuple[int, bytes]], on_line: OnLine
) -> list[dict[str, Any]]:
    """Store some lines; each result carries the number of its line."""
    from dataclasses import replace

    from butlers.memory.operations.batch import store_batch as operation

    numbers = [number for number, _ in lines]
    watched = replace(context, on_progress=lambda done, _: on_line(numbers[done - 1]))
    answer = await operation.perform(watched, memories=[_parsed(line) for _, line in lines])
    return [{"line": numbers[result.pop("place")], **result} for result in answer["results"]]


def _parsed(line: bytes) -> Any:
    """Parse a line; one that is not JSON stays text, which the operation refuses by its number."""
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
def _line_progress() -> Iterator[OnLine]:
    """Show on a terminal how many lines are done."""
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
