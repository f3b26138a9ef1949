"""A project's memory in files: as Markdown that people edit, and as a section for agents."""

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


ProjectOption = Annotated[
    str | None, typer.Option("--project", help="Its id or name [default: of this directory].")
]


def files(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files are.")],
    project: ProjectOption = None,
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
        is_edited = any(edit.kind != "not read" for edit in edits)
        confirmed = is_edited and not yes and _agreed()
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


def write_project(
    file: Annotated[
        Path | None, typer.Argument(help="Which file [default: AGENTS.md, or CLAUDE.md].")
    ] = None,
    project: ProjectOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the section out again.")] = False,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
) -> None:
    """Write tried rules and present decisions into an agent's instruction file.

    They stand in a marked section, which is kept in step with the sessions of the project.
    """
    from butlers.sessions.project_section import (
        FILES,
        Section,
        SectionFile,
        remove_section,
        section_of,
        write_section,
    )

    found = next((Path(name) for name in FILES if Path(name).exists()), Path(FILES[0]))
    where = (file or found).resolve()

    async def run(opened: "Butler") -> str:
        sections = SectionFile(opened.home.sections_file)
        known = next((one for one in sections.all() if one.file == str(where)), None)
        if remove:
            sections.put(str(where), None)
            done = remove_section(where, known.before if known else "")
            return f"{where.name}: the section is gone" if done else f"{where}: it has no section"
        ctx, scope, id = await _project(memory_context(opened, tenant), project, where.parent)
        text = await section_of(ctx, id)
        if not (count := text.count("\n- ")):
            return f"{id} has no tried rule and no present decision yet; nothing was written"
        before = write_section(where, text, known) or write_section(where, text, None)
        about = (opened.name, ctx.lineage.tenant_id, id)
        sections.put(str(where), Section(str(where), *about, before or ""))
        return f"{where.name} holds {count} lines; sessions keep them in step"

    show_line(visible(with_butler(butler, home, run)))
