"""`butlers notes`: commands made from the notebook's operations."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.errors import NotFound, Unavailable
from butlers.interfaces.cli.commands import View, commands
from butlers.interfaces.cli.options import TenantOption, check_may_store, home_of, run
from butlers.interfaces.cli.output import excerpt, show_fields, show_line, show_table, visible

if TYPE_CHECKING:
    from butlers.notebook.operations import NotebookContext
    from butlers.operation import Operation

AgentOption = Annotated[
    str | None, typer.Option("--agent", help="Which agent's notes [default: the butler's own].")
]
Row = Mapping[str, Any]


def build() -> typer.Typer:
    """Make the commands of the notebook's operations."""
    from butlers.notebook.operations import OPERATIONS

    options = {"tenant": TenantOption, "agent": AgentOption}
    return commands(OPERATIONS, ask, VIEWS, options, within="notes ")


def ask(operation: "Operation", target: dict[str, Any], given: dict[str, Any]) -> Any:
    """Perform an operation of a butler's notebook as one agent; NotFound if there is no note."""
    if operation.stores_text:
        check_may_store(target["home"], given)

    async def perform() -> Any:
        async with _open(target, deep=given.get("mode") == "deep") as context:
            answer = await operation.perform(context, **given)
            if answer is None:
                raise NotFound(
                    f"agent {context.agent} of tenant {context.tenant} has no note "
                    f"{given['key'][:80]!r}; `butlers notes list` shows them"
                )
            return answer

    return run(perform(), "warning")


@asynccontextmanager
async def _open(target: dict[str, Any], *, deep: bool) -> "AsyncIterator[NotebookContext]":
    """Open the notebook's file; only a deep search starts the whole butler, whose language model
    and budget it uses."""
    from butlers.auth.rights import Caller
    from butlers.auth.token_grant import acting_tenant, validate_agent
    from butlers.host.home import butler_settings
    from butlers.host.hosting import opened_butler
    from butlers.notebook.manager import FILE, open_manager
    from butlers.notebook.operations import NotebookContext

    name = target["butler"]
    home = home_of(name, target["home"])
    settings = butler_settings(home, name)
    if not settings.is_enabled("notebook"):
        raise Unavailable(
            f"butler {name} does not have the notebook module; "
            "set modules.notebook.enabled = true in its butler.toml"
        )
    tenant = acting_tenant(settings.butler.tenant, target["tenant"])
    agent = validate_agent(target["agent"] or "") or name
    if deep:
        async with opened_butler(home, name) as butler:
            yield butler.module("notebook").operation_context(Caller(tenant, "cli", agent))
        return
    directory: Path = home.butler_directory(name)
    manager = open_manager(directory)
    try:
        yield NotebookContext(manager, tenant, agent, directory / FILE)
    finally:
        manager.db.close()


def _search_results(answer: Row, _: Row) -> None:
    rows = [(f"{row['score']:.2f}", row["source"], *_cells(row)) for row in answer["memories"]]
    titles = ("score", "source", "key", "content")
    show_table(titles, rows, right=("score",), wraps=("content",))


def _related(notes: Sequence[Row], _: Row) -> None:
    rows = [(f"{row['score']:.2f}", *_cells(row)) for row in notes]
    show_table(("score", "key", "content"), rows, right=("score",), wraps=("content",))


def _cells(row: Row) -> tuple[str, str]:
    return row["memory"]["key"], excerpt(row["memory"])


def _listed(notes: Sequence[Row], _: Row) -> None:
    rows = [(note["updated_at"], note["key"], excerpt(note)) for note in notes]
    show_table(("changed (UTC)", "key", "content"), rows, wraps=("content",))


def _summarized(report: Row, _: Row) -> None:
    show_line(f"archived {report['archived']} notes")
    for error in report["errors"]:
        show_line(f"not summarized: {error}")


def _stats(stats: Row, _: Row) -> None:
    categories = ", ".join(f"{name} {count}" for name, count in stats["categories"].items())
    file = stats["file"]
    show_fields(
        ("notes", f"{stats['notes']}, and {stats['archived']} archived"),
        ("categories", categories or "none"),
        ("last change", f"{stats['last_change'] or 'never'} (UTC)"),
        ("file", f"{file['path']}, {file['bytes']} bytes"),
        ("in the file", f"{file['notes']} notes of {file['agents']} agents"),
    )


VIEWS: Mapping[str, View] = {
    "": lambda note, _: typer.echo(visible(note["content"])),
    "save": lambda note, _: show_line(f"saved {note['key']} ({note['category']})"),
    "search": _search_results,
    "related": _related,
    "list_notes": _listed,
    "summarize": _summarized,
    "stats": _stats,
}
