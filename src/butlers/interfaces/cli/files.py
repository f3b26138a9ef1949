"""`butlers files`: a project's memory as Markdown files that people edit."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.errors import InvalidInput
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    TenantOption,
    memory_context,
    with_butler,
)
from butlers.interfaces.cli.output import show_json, show_line, visible

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.portability.file_edits import Edit


def files(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files are.")],
    project: Annotated[
        str | None, typer.Option("--project", help="Its id or name [default: of this directory].")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Take edits over as a document's, unasked.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the edits; do nothing.")] = False,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a project's memory as Markdown files; edits to them are taken over first.

    An edited line corrects its memory, a deleted one forgets it. Secrets, private turns and what
    is less trusted are never written.
    """

    async def run(opened: "Butler") -> dict[str, Any]:
        from butlers.portability import file_edits, memory_files

        ctx, scope, name = await _project(memory_context(opened, tenant), project, directory)
        edits = file_edits.find_edits(directory, await memory_files.read_memory(ctx, scope, name))
        told: dict[str, Any] = {
            "project": project or name,
            "edits": [asdict(edit) for edit in edits],
        }
        if not as_json:
            _show(edits)
        if dry_run:
            return told
        confirmed = bool(edits) and not yes and _agreed()
        kept = await file_edits.apply(ctx, edits, scope, confirmed=confirmed)
        lines = await memory_files.read_memory(ctx, scope, name)
        directory.mkdir(parents=True, exist_ok=True)
        changed = memory_files.write_files(directory, scope, lines, kept)
        return {**told, "memories": len(lines), "files_written": changed, "kept": len(kept)}

    told = with_butler(butler, home, run)
    if as_json:
        show_json(told)
    elif not dry_run:
        show_line(
            f"{told['memories']} memories of {visible(told['project'])} are in {directory}; "
            f"{told['files_written']} files changed"
        )


async def _project(ctx: Any, given: str | None, directory: Path) -> tuple[Any, str, str]:
    """Return a context in the project, its scope and its id."""
    from butlers.auth.rights import Project
    from butlers.memory.operations import OPERATIONS
    from butlers.memory.policy.scopes import PROJECT
    from butlers.sessions.projects import identify

    if given is not None:
        known = await OPERATIONS["show_project"].perform(ctx, project=given)
        return ctx, f"{PROJECT}{known['id']}", known["id"]
    found = identify(str(directory.absolute().parent if not directory.exists() else directory))
    ctx = replace(ctx, project=Project(tuple(found["keys"]), found["name"], found["place"]))
    scope = await ctx.store_scope("global")
    return replace(ctx, project=None), scope, scope.removeprefix(PROJECT)


def _agreed() -> bool:
    """Ask whether to take the edits over."""
    import sys

    if not sys.stdin.isatty():
        raise InvalidInput(
            "the files were edited: --yes takes the edits over, --dry-run shows them"
        )
    typer.confirm("Take these edits over?", abort=True)
    return True


def _show(edits: "Sequence[Edit]") -> None:
    for edit in edits:
        about = f"{edit.line.group}: " if edit.line.group else ""
        text = f"{about}{edit.line.prefix}{edit.line.text}"
        was = f" (was: {edit.before})" if edit.before and edit.kind != "forget" else ""
        why = f": {edit.why}" if edit.why else ""
        show_line(visible(f"{edit.kind}{why}: {text}{was}"))
