"""`butlers notes`: the notebook of a butler, as one of its agents sees it."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from butlers.doors.cli.notes_desk import desk_of
from butlers.doors.cli.options import ButlerOption, HomeOption, JsonOption
from butlers.doors.cli.tables import Column, show_fields, show_json, show_line, show_table, visible

if TYPE_CHECKING:
    from butlers.notebook import AgentMemory

app = typer.Typer(help="A butler's notebook: keyed notes of its agents.", no_args_is_help=True)

KeyArgument = Annotated[str, typer.Argument(help="The note's name.")]
TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="Whose agents [default: the butler's own tenant].")
]
AgentOption = Annotated[
    str | None, typer.Option("--agent", help="Whose notes [default: the butler's own].")
]
CategoryOption = Annotated[
    str | None, typer.Option("--category", "-c", help="Only notes of this category.")
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", "-n", help="How many at most [default: as set].")
]
_EXCERPT = 280


@app.command("save")
def save(
    key: KeyArgument,
    content: Annotated[str, typer.Argument(help="What to keep; - reads standard input.")],
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Save a note under a key, or change the one that is there."""
    desk = desk_of(butler, home, tenant, agent)
    text = sys.stdin.read() if content == "-" else content
    with desk.opened() as manager:
        saved = manager.save(desk.owner, key, text)
    if as_json:
        show_json(desk.shown(saved))
    else:
        show_line(f"saved {saved.key} ({saved.category})")


@app.command("recall")
def recall(
    key: KeyArgument,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a note says, archived or not."""
    desk = desk_of(butler, home, tenant, agent)
    with desk.opened() as manager:
        found = desk.named(manager, key)
    if as_json:
        show_json(desk.shown(found))
    else:
        typer.echo(visible(found.content))


@app.command("search")
def search(
    query: Annotated[str, typer.Argument(help="Words to look for, or a question.")],
    limit: LimitOption = None,
    mode: Annotated[
        str, typer.Option("--mode", "-m", help="fast, or deep: the language model ranks.")
    ] = "fast",
    category: CategoryOption = None,
    min_similarity: Annotated[float, typer.Option(help="0 to 1: leave out weaker matches.")] = 0.0,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find notes that match a query, best first."""
    import asyncio

    from butlers.notebook.handle import checked_category
    from butlers.notebook.results import FoundNotes

    desk = desk_of(butler, home, tenant, agent)
    result = asyncio.run(
        desk.search(
            query,
            {
                "limit": desk.limit(limit),
                "mode": mode,
                "category": checked_category(category),
                "min_similarity": min_similarity,
            },
        )
    )
    if as_json:
        show_json(FoundNotes.of(result, desk.agent).model_dump(mode="json"))
    else:
        found = result.memories
        _show_scored([(r.score, r.memory) for r in found], [str(r.source) for r in found])


@app.command("list")
def list_notes(
    category: CategoryOption = None,
    limit: LimitOption = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the notes, the last changed first, without archived ones."""
    desk = desk_of(butler, home, tenant, agent)
    with desk.opened() as manager:
        notes = desk.listed(manager, category, desk.limit(limit))
    if as_json:
        show_json([desk.shown(note) for note in notes])
        return
    columns = [Column("changed (UTC)"), Column("key"), Column("content", wraps=True)]
    show_table(columns, [(note.updated_at, note.key, _excerpt(note)) for note in notes])


@app.command("related")
def related(
    key: KeyArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many at most.")] = 10,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the notes that share words with one, the most similar first."""
    desk = desk_of(butler, home, tenant, agent)
    with desk.opened() as manager:
        found = manager.get_related(desk.named(manager, key).id, limit)
    if as_json:
        show_json([{"memory": desk.shown(one.memory), "score": one.score} for one in found])
    else:
        _show_scored([(one.score, one.memory) for one in found])


@app.command("summarize")
def summarize(
    everybody: Annotated[
        bool, typer.Option("--all", help="Of every agent of every tenant, as the nightly job does.")
    ] = False,
    older_than_days: Annotated[
        int | None, typer.Option(help="How old notes must be [default: as set].")
    ] = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put old notes that share a key prefix into one summary, and archive them."""
    desk = desk_of(butler, home, tenant, agent)
    with desk.opened() as manager:
        report = desk.summarized(manager, everybody=everybody, older_than_days=older_than_days)
    if as_json:
        show_json(report)
        return
    show_line(f"{report['archived']} notes were archived")
    for error in report["errors"]:
        show_line(f"not summarized: {error}")


@app.command("stats")
def stats(
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count the agent's notes, and those of the whole file."""
    desk = desk_of(butler, home, tenant, agent)
    with desk.opened() as manager:
        found = desk.stats(manager)
    if as_json:
        show_json(found)
        return
    categories = ", ".join(f"{name} {count}" for name, count in found["categories"].items())
    whole = found["file"]
    show_fields(
        [
            ("agent", f"{desk.agent}, tenant {desk.tenant}"),
            ("notes", f"{found['notes']}, and {found['archived']} archived"),
            ("categories", categories or "none"),
            ("last change", f"{found['last_change'] or 'never'} (UTC)"),
            ("file", f"{whole['path']}, {whole['bytes']} bytes"),
            ("in the file", f"{whole['notes']} notes of {whole['agents']} agents"),
        ]
    )


def _show_scored(
    found: "Sequence[tuple[float, AgentMemory]]", sources: Sequence[str] | None = None
) -> None:
    columns = [Column("score", "right"), Column("key"), Column("content", wraps=True)]
    rows = [[f"{score:.2f}", note.key, _excerpt(note)] for score, note in found]
    if sources is not None:
        columns.insert(1, Column("by"))
        rows = [[row[0], source, *row[1:]] for row, source in zip(rows, sources, strict=True)]
    show_table(columns, rows)


def _excerpt(note: "AgentMemory") -> str:
    text = note.content
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT].rstrip()}…"
