"""`butlers memory`: what a butler remembers, for people."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from butlers.interfaces.cli.commands import TenantOption, commands, lazy_group
from butlers.interfaces.cli.options import example, memory_context, with_butler

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.operation import Operation

_PROJECT = "project "
_NOT_THERE = {
    "get": "{kind}",
    "explain": "{kind}",
    "history": "memory",
    "confirm": "{standing} in use under",
    "forget": "{kind} left to forget under",
    "restore": "{standing} that was forgotten under",
    "keep": "{standing} in doubt under",
}


def _build() -> typer.Typer:
    from butlers.interfaces.cli import batch, cost, trail
    from butlers.interfaces.cli.views import VIEWS
    from butlers.memory.operations import OPERATIONS

    written = {"store_batch": batch.store_batch}
    ours = [one for one in OPERATIONS if not one.command.startswith(_PROJECT)]
    views = {**VIEWS, "verify_events": trail.verified}
    app = commands(ours, ask, views, "butlers memory", {"tenant": TenantOption}, written)
    app.command("cost", epilog=example("butlers memory cost --days 7"))(cost.cost)
    return app


app = lazy_group(
    "What a butler remembers.", 'butlers memory recall "what should I cook for Ann?"', _build
)


def _build_projects() -> typer.Typer:
    from dataclasses import replace

    from butlers.interfaces.cli.views import VIEWS
    from butlers.memory.operations import OPERATIONS

    ours = [
        replace(one, command=one.command.removeprefix(_PROJECT))
        for one in OPERATIONS
        if one.command.startswith(_PROJECT)
    ]
    return commands(ours, ask, VIEWS, "butlers", {"tenant": TenantOption})


projects = lazy_group(
    "What sessions work in, and who is told what is remembered there.",
    "butlers project list",
    _build_projects,
)


def ask(operation: "Operation", place: dict[str, Any], given: dict[str, Any]) -> Any:
    """The answer of a butler's memory; the database is joined, or started for this moment."""
    from dataclasses import replace

    from butlers.operation import Detail

    if "detail" in operation.fields:
        given = {**given, "detail": Detail.FULL}
    operation.parse(given)  # refused before anything is opened

    async def asked(opened: "Butler") -> Any:
        ctx = memory_context(opened, place["tenant"])
        with _progress(operation) as on_progress:
            return await operation.perform(replace(ctx, on_progress=on_progress), **given)

    answer = with_butler(place["butler"], place["home"], asked)
    _refuse_nothing(operation, answer, place["butler"], given)
    return answer


def _refuse_nothing(
    operation: "Operation", answer: Any, butler: str, given: dict[str, Any]
) -> None:
    """Nothing to show, or nothing done, is an error that says so."""
    from butlers.errors import NotFound

    if answer is None and operation.name not in _NOT_THERE:
        raise NotFound(f"butler {butler} has nothing for this tenant that is what was asked for")
    empty = not answer or (isinstance(answer, dict) and list(answer.values()) == [False])
    if not empty or operation.name not in _NOT_THERE:
        return
    kind = given.get("memory_type")
    what = _NOT_THERE[operation.name].format(kind=kind or "memory", standing=kind or "fact or rule")
    raise NotFound(
        f"butler {butler} has no {what} {given['memory_id']} for this tenant; "
        "`butlers memory search` shows ids"
    )


@contextmanager
def _progress(operation: "Operation") -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal while memories are embedded, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if operation.name != "reembed" or not console.is_terminal:
        yield lambda done, total: None
        return
    with Progress(console=console) as bar:
        task = bar.add_task("embedding", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
