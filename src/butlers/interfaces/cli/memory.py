"""Commands made from the memory's operations."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.errors import Conflict, NotFound, PresenceRequired
from butlers.interfaces.cli.commands import commands
from butlers.interfaces.cli.inbox_view import item_lines
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    TenantOption,
    check_may_store,
    example,
    memory_context,
    with_butler,
)
from butlers.interfaces.cli.output import progress_bar, show_json, show_line, visible
from butlers.interfaces.cli.presence import prove_presence
from butlers.interfaces.cli.project_files import write_project
from butlers.interfaces.cli.shell import current_shell

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.operation import Operation

Lines = Iterator[tuple[int, bytes]]
"""Lines of a file that are not blank, each with its number."""
_FILE_HELP = "One memory per line, as a JSON object. - reads standard input."
_WHOLE_IDS = dict.fromkeys(("conflict_id", "proposal_id"), "") | {
    "entity_id": "entity",
    "source_episode_id": "episode",
    "episode": "episode",
}
"""Fields that take whole ids, and what each names; empty for what waits in the inbox."""
_DIGITS, _MOST_WAITING = 32, 100
_NOT_THERE = {
    "get": "{kind}",
    "explain": "{kind}",
    "history": "memory",
    "confirm": "current {fact_or_rule}",
    "forget": "{kind} left to forget with id",
    "restore": "forgotten {fact_or_rule}",
    "keep": "{fact_or_rule} in doubt with id",
    "restore_decision": "past decision",
    "retire_decision": "decision that holds with id",
}


def build() -> typer.Typer:
    """Make the commands of the memory's operations."""
    from butlers.interfaces.cli.memory_views import VIEWS
    from butlers.memory.operations import OPERATIONS

    root = commands(OPERATIONS, ask, VIEWS, {"tenant": TenantOption}, {"store_batch": store_batch})
    for group in root.registered_groups:
        if group.name == "project" and group.typer_instance:
            write = group.typer_instance.command
            write("write", epilog=example("butlers project write"))(write_project)
    return root


def ask(operation: "Operation", target: dict[str, Any], given: dict[str, Any]) -> Any:
    """Perform an operation of a butler's memory; NotFound where it finds or changes nothing."""
    from butlers.operation import Detail

    if "detail" in operation.fields:
        given = {**given, "detail": Detail.FULL}
    partial = [name for name in _WHOLE_IDS if name in given and len(str(given[name])) < _DIGITS]
    if not partial:
        operation.parse(given)  # refuse bad input before a database is opened
    if operation.stores_text:
        check_may_store(target["home"], given)

    async def perform(opened: "Butler", may_decide: bool = False) -> Any:
        context = memory_context(opened, target["tenant"], may_decide=may_decide)
        is_long = operation.name == "reembed"
        with progress_bar("embedding", enabled=is_long, transient=False) as update:
            watched = replace(
                context, on_progress=lambda done, total: update(completed=done, total=total)
            )
            return await operation.perform(watched, **given)

    async def decide(opened: "Butler") -> Any:
        for name in partial:
            context = memory_context(opened, target["tenant"])
            given[name] = await _whole_id(context, name, str(given[name]))
        try:
            return await perform(opened)
        except PresenceRequired as error:  # nothing was changed
            about = await _about(opened, operation, target, given)
            await prove_presence(opened.home, opened.name, target["tenant"], error.what, about)
            return await perform(opened, may_decide=True)

    answer = with_butler(target["butler"], target["home"], decide)
    _refuse_empty(operation, answer, target["butler"], given)
    return answer


async def _whole_id(context: Any, name: str, given: str) -> str:
    """Complete the beginning of an id, where the operation wants a whole one."""
    from butlers.memory.flows.lookup import checked_beginning
    from butlers.memory.operations.inbox import list_inbox

    if kind := _WHOLE_IDS[name]:
        return str(await context.known_id(name, given, kind))
    items = await list_inbox.perform(context, limit=_MOST_WAITING)
    beginning = checked_beginning(given)
    found = [str(item["id"]) for item in items if str(item["id"]).startswith(beginning)]
    if len(found) > 1:
        raise Conflict(f"{name}: {given} may mean {', '.join(found)}; give more of the id")
    if not found:
        raise NotFound(f"{name}: nothing that waits has the id {given}; see `butlers inbox`")
    return found[0]


async def _about(
    opened: "Butler", operation: "Operation", target: dict[str, Any], given: dict[str, Any]
) -> list[str]:
    """Put what a person is asked to allow into lines: the operation, and what it decides."""
    from butlers.memory.operations.inbox import list_inbox

    chosen = str(given.get(operation.arguments[0])) if operation.arguments else "none"
    for item in await list_inbox.perform(memory_context(opened, target["tenant"])):
        if item["id"].startswith(chosen):
            return [operation.headline, *item_lines(item)]
    fields = dict(given)
    if given.get("apply"):  # what would be undone
        context = memory_context(opened, target["tenant"])
        fields |= await operation.perform(context, **{**given, "apply": False})
    shown = {name: value for name, value in fields.items() if isinstance(value, str | int)}
    return [operation.headline, *(f"{name}: {value}" for name, value in shown.items() if value)]


def _refuse_empty(operation: "Operation", answer: Any, butler: str, given: dict[str, Any]) -> None:
    what, kind = _NOT_THERE.get(operation.name), given.get("memory_type")
    if what is None:
        if answer is None:
            raise NotFound(f"butler {butler} has nothing for this tenant that matches")
    elif not answer or (isinstance(answer, dict) and list(answer.values()) == [False]):
        named = what.format(kind=kind or "memory", fact_or_rule=kind or "fact or rule")
        raise NotFound(
            f"butler {butler} has no {named} {given['memory_id']} for this tenant; "
            "`butlers memory search` shows ids"
        )


def store_batch(
    f_memories: Annotated[str, typer.Argument(metavar="FILE", help=_FILE_HELP)],
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store the memories of a file, and report the lines that could not be stored."""
    check_may_store(home, None)
    with (
        nullcontext(current_shell().stdin())
        if f_memories == "-"
        else open(current_shell().path(f_memories), "rb") as file,
        progress_bar("storing", unit="lines") as update,
    ):
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        results = with_butler(
            butler, home, lambda opened: _store_lines(opened, tenant, lines, update)
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
    opened: "Butler", tenant: str | None, lines: Lines, update: Callable[..., None]
) -> list[dict[str, Any]]:
    """Store lines in chunks; each result carries the number of its line."""
    from butlers.errors import Unavailable
    from butlers.memory.operations.batch import MOST
    from butlers.memory.operations.batch import store_batch as operation

    context, results = memory_context(opened, tenant), list[dict[str, Any]]()
    while chunk := list(islice(lines, MOST)):
        numbers = [number for number, _ in chunk]
        watched = replace(
            context, on_progress=lambda done, _, at=numbers: update(completed=at[done - 1])
        )
        try:
            answer = await operation.perform(watched, memories=[_parsed(line) for _, line in chunk])
        except Unavailable as error:
            raise Unavailable(f"{error}; the first {numbers[0] - 1} lines are done") from error
        results += [
            {"line": numbers[result.pop("place")], **result} for result in answer["results"]
        ]
    return results


def _parsed(line: bytes) -> Any:
    """Parse a line; one that is not JSON stays text, which the operation refuses by its number."""
    text = line.decode("utf-8", "replace").strip()
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return text
