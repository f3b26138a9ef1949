"""`butlers notes`: the notebook of a butler, as one of its agents sees it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.commands import View, commands, lazy_group
from butlers.interfaces.cli.options import home_of
from butlers.interfaces.cli.tables import Column, show_fields, show_line, show_table, visible
from butlers.interfaces.cli.wording import says

if TYPE_CHECKING:
    from butlers.notebook.operations import NotebookContext
    from butlers.operation import Operation

TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="Whose agents [default: the butler's own tenant].")
]
AgentOption = Annotated[
    str | None, typer.Option("--agent", help="Whose notes [default: the butler's own].")
]
Row = Mapping[str, Any]


def _build() -> typer.Typer:
    from butlers.notebook.operations import OPERATIONS

    place = {"tenant": TenantOption, "agent": AgentOption}
    return commands(OPERATIONS, ask, VIEWS, "butlers notes", place)


app = lazy_group("A butler's notebook: keyed notes of its agents.", "butlers notes list", _build)


def ask(operation: "Operation", place: dict[str, Any], given: dict[str, Any]) -> Any:
    """The answer of a butler's notebook, opened for this moment as one agent."""
    import asyncio

    from butlers.logs import configure

    configure("warning")

    async def asked() -> Any:
        async with _opened(place, deep=given.get("mode") == "deep") as ctx:
            answer = await operation.perform(ctx, **given)
            if answer is None:
                raise _nothing(ctx, given["key"])
            return answer

    return asyncio.run(asked())


def _nothing(ctx: "NotebookContext", key: str) -> Exception:
    from butlers.errors import NotFound

    return NotFound(
        f"agent {ctx.agent} of tenant {ctx.tenant} has no note {key[:80]!r}; "
        "`butlers notes list` shows them"
    )


@asynccontextmanager
async def _opened(place: dict[str, Any], *, deep: bool) -> "AsyncIterator[NotebookContext]":
    """The notebook, beside whoever else uses it; only a deep search starts the whole butler,
    whose runtime and budget it uses."""
    from butlers.errors import Unavailable
    from butlers.host.home import butler_settings
    from butlers.host.hosting import opened_butler
    from butlers.host.token_record import acting_tenant, validate_agent
    from butlers.module import Caller
    from butlers.notebook.manager import FILE, open_manager
    from butlers.notebook.operations import NotebookContext

    name = place["butler"]
    home = home_of(name, place["home"])
    settings = butler_settings(home, name)
    if not settings.is_enabled("notebook"):
        raise Unavailable(
            f"butler {name} does not have the notebook module; "
            "set modules.notebook.enabled = true in its butler.toml"
        )
    tenant = acting_tenant(settings.butler.tenant, place["tenant"])
    agent = validate_agent(place["agent"] or "") or name
    if deep:
        async with opened_butler(home, name) as butler:
            yield butler.module("notebook").operation_context(Caller(tenant, "cli", agent))
        return
    directory: Path = home.butler_directory(name)
    config: Any = settings.module("notebook")
    manager = open_manager(directory, config)
    try:
        yield NotebookContext(manager, config, tenant, agent, directory / FILE)
    finally:
        manager.db.close()


def _saved(note: Row, _: Row) -> None:
    show_line(f"saved {note['key']} ({note['category']})")


def _note_line(note: Row, _: Row) -> None:
    typer.echo(visible(note["content"]))


def _result_lines(found: Row, _: Row) -> None:
    columns = (Column("score", "right"), Column("by"), Column("key"), Column("content", wraps=True))
    rows = [(f"{one['score']:.2f}", one["source"], *_cells(one)) for one in found["memories"]]
    show_table(columns, rows)


def _related(found: Sequence[Row], _: Row) -> None:
    columns = (Column("score", "right"), Column("key"), Column("content", wraps=True))
    show_table(columns, [(f"{one['score']:.2f}", *_cells(one)) for one in found])


def _cells(found: Row) -> tuple[str, str]:
    return found["memory"]["key"], says(found["memory"])


def _listed(notes: Sequence[Row], _: Row) -> None:
    columns = (Column("changed (UTC)"), Column("key"), Column("content", wraps=True))
    show_table(columns, [(note["updated_at"], note["key"], says(note)) for note in notes])


def _summarized(report: Row, _: Row) -> None:
    show_line(f"{report['archived']} notes were archived")
    for error in report["errors"]:
        show_line(f"not summarized: {error}")


def _counted(found: Row, _: Row) -> None:
    categories = ", ".join(f"{name} {count}" for name, count in found["categories"].items())
    whole = found["file"]
    show_fields(
        [
            ("notes", f"{found['notes']}, and {found['archived']} archived"),
            ("categories", categories or "none"),
            ("last change", f"{found['last_change'] or 'never'} (UTC)"),
            ("file", f"{whole['path']}, {whole['bytes']} bytes"),
            ("in the file", f"{whole['notes']} notes of {whole['agents']} agents"),
        ]
    )


VIEWS: Mapping[str, View] = {
    "": _note_line,
    "save": _saved,
    "search": _result_lines,
    "related": _related,
    "list_notes": _listed,
    "summarize": _summarized,
    "stats": _counted,
}
