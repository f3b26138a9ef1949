"""`butlers export`, `import` and `erase`: move memories out, in, or delete them for good."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.errors import InvalidInput
from butlers.interfaces.cli.agent_shell import agent_of_shell
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    TenantOption,
    acting_as,
    ensure_home,
    example,
    find_home,
    with_butler,
)
from butlers.interfaces.cli.output import (
    progress_bar,
    show_json,
    show_line,
    show_table,
    size,
    visible,
)
from butlers.interfaces.cli.presence import prove_presence
from butlers.interfaces.cli.shell import current_shell

if TYPE_CHECKING:
    from uuid import UUID

    from butlers.host.butler import Butler
    from butlers.memory.model import Lineage


def export(
    file: Annotated[
        str, typer.Argument(help="Where to write; - is stdout. With --about, leave out to preview.")
    ] = "",
    about: Annotated[
        str, typer.Option(help="Only what is about this person or thing: name, alias or entity id.")
    ] = "",
    format: Annotated[
        str, typer.Option("--format", help="butlers (complete), or pam (Portable AI Memory 1.0).")
    ] = "butlers",
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
) -> None:
    """Export a butler's memories and notes to a file.

    The same memories always give the same bytes. `butlers import` reads the file in any home.
    """
    from butlers.portability.about import preview
    from butlers.portability.formats import exported

    async def run(opened: "Butler") -> Any:
        lineage = _lineage(opened, tenant)
        if file:
            lines = await exported(opened, lineage, format, about)
            written = 0
            with _written(file) as write, progress_bar("exporting", unit="lines") as update:
                async for line in lines:
                    write(line)
                    update(completed=(written := written + 1))
            return written
        return await preview(opened, lineage, about)

    if not (file or about):
        raise InvalidInput("FILE is missing: say where to write, or - for stdout")
    found = with_butler(butler, home, run)
    if file:
        if file != "-":
            path = current_shell().path(file)
            show_line(f"exported {found:,} lines to {path} ({size(path.stat().st_size)})")
    else:
        names, lacks = ", ".join(found["names"]), _counted(found["found_but_not_exported"])
        show_line(f"would export {_counted(found['counts'])}; searched for {visible(names)}")
        show_line(f"found, but no import can take it: {lacks}")
        show_line(f"not searched: {', '.join(found['not_searched'])}")


def import_memories(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="An export file, or a folder of Markdown.")
    ],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="butlers, pam, chatgpt, claude, mem0, markdown, mcp-memory, claude-mem, "
            "basic-memory or hindsight [default: detected].",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what each item would become; store nothing.")
    ] = False,
    trusted: Annotated[
        bool,
        typer.Option(
            "--trusted", help="Keep who stated what as the file says; for an export of your own."
        ),
    ] = False,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import memories: an export of butlers, or what another product exports or stores.

    They are marked as a document's and never outrank what you stated, unless you trust the file.
    An item that cannot be read is skipped and named. Importing a file twice changes nothing.
    """
    from dataclasses import asdict

    from butlers.portability.formats import ImportRequest, imported
    from butlers.sessions.privacy import check_switch

    check_switch(current_shell().environment)
    ensure_home(home)
    wanted = ImportRequest(current_shell().path(source), from_ or "", dry_run, trusted)

    async def run(opened: "Butler") -> Any:
        if trusted and not dry_run:
            about = [f"import {source}, and believe who it says stated what"]
            await prove_presence(opened.home, butler, tenant, "vouch for what a file says", about)
        with progress_bar() as update:

            def on_step(step: str, done: int, total: int) -> None:
                update(description=step, completed=done, total=total or None)

            return await imported(opened, wanted, _lineage(opened, tenant), on_step)

    done = with_butler(butler, home, run)
    if as_json:
        show_json(asdict(done))
        return
    if dry_run:
        rows = [list(item.values()) for item in done.items]
        show_table(("place", "kind", "state", "says"), rows, wraps=("says",))
    for reason in done.skipped if not dry_run else ():
        typer.echo(f"butlers: skipped: {visible(reason)}", err=True)
    stored = ", ".join(f"{number} {kind}" for kind, number in done.stored.items() if number)
    counts = f"{sum(done.known.values())} already there, {len(done.skipped)} skipped"
    verb = "would import" if dry_run else "imported"
    show_line(f"{verb} from {done.source}: {stored or 'nothing new'}; {counts}")


erase_app = typer.Typer(
    invoke_without_command=True,
    help="Erase a person, a session or a tenant from a butler, permanently.",
    rich_markup_mode=None,
)


@erase_app.callback()
def erase(
    context: typer.Context,
    about: Annotated[str, typer.Option(help="Erase the person or thing with this name.")] = "",
    entity: Annotated[
        str, typer.Option(help="Erase the entity with this id, under all its names.")
    ] = "",
    session: Annotated[str, typer.Option(help="Erase what the session with this id left.")] = "",
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Id of a memory to keep, or the beginning of it; repeatable."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Erase. Without it, only show what would be erased.")
    ] = False,
    receipt: Annotated[Path | None, typer.Option(help="Where to write the receipt.")] = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="Which tenant; with no other option, erase all of it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would be erased; with --yes, erase it and write a signed receipt.

    Only a person erases: at a terminal, or with an operator token.
    """
    if context.invoked_subcommand is not None:
        return
    from butlers.memory.policy.erasure import ErasureRequest
    from butlers.portability import erase as data

    everything = bool(tenant) and not (about or entity or session)
    request = ErasureRequest(about, _entity(entity), session, everything, tuple(keep or ()))
    data.check(request)

    async def run(opened: "Butler") -> dict[str, Any]:
        lineage = _lineage(opened, tenant)
        found = await data.preview(opened, request, lineage)
        if not yes:
            return found
        about = [f"erase {_counted(found['counts'])}", "it cannot be undone"]
        await prove_presence(opened.home, butler, tenant, "erase", about)
        return await data.erase(opened, request, lineage)

    result = with_butler(butler, home, run)
    if receipt is not None and yes:
        with _written(str(receipt)) as write:
            write((json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode())
    if as_json or (yes and receipt is None):
        show_json(result)
    elif yes:
        show_line(f"erased {_counted(result['counts'])}; receipt: {receipt}")
    else:
        _show_preview(result)


@erase_app.command("verify", epilog=example("butlers erase verify receipt.json"))
def verify(
    file: Annotated[Path, typer.Argument(metavar="RECEIPT", help="A receipt of an erasure.")],
    home: HomeOption = None,
) -> None:
    """Check that a receipt is unchanged, and whether this home signed it."""
    from butlers.portability.erase import verify_receipt

    try:
        receipt = json.loads(file.read_text("utf-8"))
    except ValueError:
        raise InvalidInput(
            f"{file}: found no JSON; valid is a receipt of `butlers erase`"
        ) from None
    signed = verify_receipt(find_home(home).checked(), receipt)
    show_line(f"{signed}: erased {_counted(receipt['counts'])} at {receipt['at']}")


def _entity(text: str) -> "UUID | None":
    from uuid import UUID

    try:
        return UUID(text) if text else None
    except ValueError:
        raise InvalidInput(f"entity: found {text[:60]!r}; valid is a full id") from None


def _show_preview(preview: dict[str, Any]) -> None:
    rows = [[row[key] for key in ("kind", "id", "why", "says")] for row in preview["found"]]
    show_table(("kind", "id", "reason", "content"), rows, wraps=("content",))
    show_line(f"would erase {_counted(preview['counts'])}; --yes erases, --keep ID spares one")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items()) or "nothing"


def _lineage(opened: "Butler", tenant: str | None) -> "Lineage":
    from butlers.memory.model import Lineage, Origin

    agent = agent_of_shell(current_shell().environment)
    origin = Origin.AGENT if agent else Origin.OPERATOR
    return Lineage(acting_as(opened, tenant), agent or "cli", origin=origin, agent=agent)


@contextmanager
def _written(file: str) -> Iterator[Callable[[bytes], object]]:
    """Open a private file for writing; it appears only once it is complete."""
    from butlers.atomic_files import draft_of

    if file == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
    else:
        with draft_of(current_shell().path(file)) as stream:
            yield stream.write
