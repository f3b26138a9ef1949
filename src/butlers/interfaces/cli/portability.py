"""`butlers export`, `import` and `erase`: move memories out, in, or delete them for good."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.commands import TenantOption
from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    acting_as,
    example,
    with_butler,
)
from butlers.interfaces.cli.output import TableColumn, show_json, show_line, show_table, visible

if TYPE_CHECKING:
    from uuid import UUID

    from butlers.host.butler import Butler
    from butlers.memory.model import Lineage

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="Where to write. - writes to stdout.")
]
FormatOption = Annotated[
    str, typer.Option("--format", help="butlers (complete), or pam (Portable AI Memory 1.0).")
]
SourceArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="An export file, or a folder of Markdown.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="butlers, pam, chatgpt, claude, mem0 or markdown [default: detected].",
    ),
]


def export(
    file: FileArgument,
    format: FormatOption = "butlers",
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
) -> None:
    """Export a butler's memories and notes to a file.

    The same memories always give the same bytes. `butlers import` reads the file in any home.
    """
    from butlers.portability.formats import exported

    with _written(file) as write:
        with_butler(
            butler,
            home,
            lambda opened: _drain(exported(opened, _lineage(opened, tenant), format), write),
        )


def import_memories(
    source: SourceArgument,
    from_: FromOption = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import memories: an export of butlers, PAM, ChatGPT, Claude, mem0, or Markdown files.

    The whole file is checked before anything is written. Importing it twice changes nothing.
    """
    from dataclasses import asdict

    from butlers.portability.formats import imported

    async def run(opened: "Butler") -> Any:
        with _progress() as on_step:
            return await imported(opened, source, from_, _lineage(opened, tenant), on_step)

    done = with_butler(butler, home, run)
    if as_json:
        show_json(asdict(done))
        return
    for reason in done.skipped:
        typer.echo(f"butlers: skipped: {visible(reason)}", err=True)
    stored = ", ".join(f"{number} {kind}" for kind, number in done.stored.items() if number)
    known = sum(done.known.values())
    show_line(f"imported from {done.source}: {stored or 'nothing new'}; {known} already there")


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
    """Show what would be erased; with --yes, erase it and write a signed receipt."""
    if context.invoked_subcommand is not None:
        return
    from butlers.memory.policy.erasure import ErasureRequest
    from butlers.portability import erase as data

    everything = bool(tenant) and not (about or entity or session)
    wanted = ErasureRequest(about, _entity(entity), session, everything, tuple(keep or ()))
    data.check(wanted)
    done = data.erase if yes else data.preview
    result = with_butler(
        butler, home, lambda opened: done(opened, wanted, _lineage(opened, tenant))
    )
    if receipt is not None and yes:
        with _written(str(receipt)) as write:
            write(_pretty(result))
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
    import json

    from butlers.errors import InvalidInput
    from butlers.interfaces.cli.options import existing_home
    from butlers.portability.erase import verify_receipt

    try:
        receipt = json.loads(file.read_text("utf-8"))
    except ValueError:
        raise InvalidInput(f"{file}: found no JSON; valid is a receipt") from None
    signed = verify_receipt(existing_home(home), receipt)
    show_line(f"{signed}: erased {_counted(receipt['counts'])} at {receipt['at']}")


def _entity(given: str) -> "UUID | None":
    from uuid import UUID

    from butlers.errors import InvalidInput

    try:
        return UUID(given) if given else None
    except ValueError:
        raise InvalidInput(f"entity: found {given[:60]!r}; valid is a whole id") from None


def _show_preview(preview: dict[str, Any]) -> None:
    columns = (
        TableColumn("kind"),
        TableColumn("id"),
        TableColumn("reason"),
        TableColumn("content", wraps=True),
    )
    keys = ("kind", "id", "why", "says")
    show_table(columns, [[row[key] for key in keys] for row in preview["found"]])
    show_line(f"would erase {_counted(preview['counts'])}; --yes erases, --keep ID spares one")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items()) or "nothing"


def _pretty(value: Any) -> bytes:
    import json

    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _lineage(opened: "Butler", tenant: str | None) -> "Lineage":
    from butlers.memory.model import Lineage

    return Lineage(acting_as(opened, tenant), "cli")


async def _drain(lines: AsyncIterator[bytes], write: Callable[[bytes], object]) -> None:
    async for line in lines:
        write(line)


@contextmanager
def _written(file: str) -> Iterator[Callable[[bytes], object]]:
    """Open a private file for writing; it appears only once it is complete."""
    import os
    import tempfile

    if file == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    target = Path(file)
    handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.absolute().parent)
    try:
        with open(handle, "wb") as stream:
            yield stream.write
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda step, done, total: None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda step, done, total: bar.update(
            task, description=step, completed=done, total=total or None
        )
