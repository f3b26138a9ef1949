"""`butlers export`, `import` and `erase`: what is kept of somebody is theirs."""

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
    example,
    with_butler,
)
from butlers.interfaces.cli.tables import Column, show_json, show_line, show_table, visible

if TYPE_CHECKING:
    from uuid import UUID

    from butlers.host.butler import Butler
    from butlers.memory.model import Lineage

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Where to. - writes to stdout.")]
FormatOption = Annotated[
    str, typer.Option("--format", help="butlers (everything), or pam (Portable AI Memory 1.0).")
]
SourceArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A file of one of these, or a folder of Markdown.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="butlers, pam, chatgpt, claude, mem0 or markdown [default: by what it looks like].",
    ),
]


def export(
    file: FileArgument,
    format: FormatOption = "butlers",
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
) -> None:
    """Write everything a butler remembers, and its notes, to a file that is yours.

    The same memory is always the same bytes. `butlers import` reads the file in any home.
    """
    from butlers.portability.formats import exported

    with _written(file) as write:
        with_butler(
            butler,
            home,
            lambda opened: _drain(exported(opened, _lineage(opened, tenant), format), write),
        )


def bring(
    source: SourceArgument,
    from_: FromOption = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring memories in: an export of butlers, PAM, ChatGPT, Claude, mem0, or Markdown files.

    Everything is checked before anything is written, and importing twice changes nothing.
    """
    from dataclasses import asdict

    from butlers.portability.formats import imported

    async def asked(opened: "Butler") -> Any:
        with _progress() as on_step:
            return await imported(opened, source, from_, _lineage(opened, tenant), on_step)

    done = with_butler(butler, home, asked)
    if as_json:
        show_json(asdict(done))
        return
    for one in done.skipped:
        typer.echo(f"butlers: left out: {visible(one)}", err=True)
    stored = ", ".join(f"{number} {kind}" for kind, number in done.stored.items() if number)
    there = sum(done.known.values())
    show_line(f"imported from {done.source}: {stored or 'nothing new'}; {there} were there already")


erasing = typer.Typer(
    invoke_without_command=True,
    help="Erase a person, a session or a tenant from everything a butler keeps, for good.",
    rich_markup_mode=None,
)


@erasing.callback()
def erase(  # noqa: PLR0913 - the options of a command
    context: typer.Context,
    about: Annotated[str, typer.Option(help="Whoever has this name.")] = "",
    entity: Annotated[str, typer.Option(help="The entity with this id, by all its names.")] = "",
    session: Annotated[str, typer.Option(help="What came of the session with this id.")] = "",
    keep: Annotated[
        list[str] | None, typer.Option(help="The id, or how it begins, of what stays.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Erase; without it only what would be.")
    ] = False,
    receipt: Annotated[Path | None, typer.Option(help="Where to write the receipt.")] = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Whose; with nothing else, all of theirs.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would be erased, and with --yes erase it and give a signed receipt."""
    if context.invoked_subcommand is not None:
        return
    from butlers.memory.policy.erasure import ErasureRequest
    from butlers.portability import erase as data

    everything = bool(tenant) and not (about or entity or session)
    wanted = ErasureRequest(about, _entity(entity), session, everything, tuple(keep or ()))
    data.check(wanted)
    done = data.erase if yes else data.preview
    told = with_butler(butler, home, lambda opened: done(opened, wanted, _lineage(opened, tenant)))
    if receipt is not None and yes:
        with _written(str(receipt)) as write:
            write(_pretty(told))
    if as_json or (yes and receipt is None):
        show_json(told)
    elif yes:
        show_line(f"erased {_counted(told['counts'])}; the receipt is in {receipt}")
    else:
        _show_preview(told)


@erasing.command("verify", epilog=example("butlers erase verify receipt.json"))
def verify(
    file: Annotated[Path, typer.Argument(metavar="RECEIPT", help="A receipt of an erasure.")],
    home: HomeOption = None,
) -> None:
    """Say whether a receipt is whole, and whether this home signed it."""
    import json

    from butlers.errors import InvalidInput
    from butlers.interfaces.cli.options import existing_home
    from butlers.portability import receipts

    try:
        receipt = json.loads(file.read_text("utf-8"))
    except ValueError:
        raise InvalidInput(f"{file}: found no JSON; valid is a receipt") from None
    signed = receipts.verify(existing_home(home), receipt)
    show_line(f"{signed}: erased {_counted(receipt['counts'])} at {receipt['at']}")


def _entity(given: str) -> "UUID | None":
    from uuid import UUID

    from butlers.errors import InvalidInput

    try:
        return UUID(given) if given else None
    except ValueError:
        raise InvalidInput(f"entity: found {given[:60]!r}; valid is a whole id") from None


def _show_preview(told: dict[str, Any]) -> None:
    columns = (Column("kind"), Column("id"), Column("why"), Column("says", wraps=True))
    rows = [[one[column.title] for column in columns] for one in told["found"]]
    show_table(columns, rows)
    show_line(f"would be erased: {_counted(told['counts'])}. --yes erases it; --keep ID keeps one")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items()) or "nothing"


def _pretty(told: Any) -> bytes:
    import json

    return (json.dumps(told, indent=2, ensure_ascii=False) + "\n").encode()


def _lineage(opened: "Butler", tenant: str | None) -> "Lineage":
    from butlers.host.token_record import acting_tenant
    from butlers.memory.model import Lineage

    return Lineage(acting_tenant(opened.settings.butler.tenant, tenant), "cli")


async def _drain(lines: AsyncIterator[bytes], write: Callable[[bytes], object]) -> None:
    async for line in lines:
        write(line)


@contextmanager
def _written(file: str) -> Iterator[Callable[[bytes], object]]:
    """Where bytes go; a file is private, and there only once it is whole."""
    import os
    import tempfile

    if file == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    place = Path(file)
    handle, draft = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.absolute().parent)
    try:
        with open(handle, "wb") as stream:
            yield stream.write
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, place)
    except BaseException:
        os.unlink(draft)
        raise


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """What is being done and how far it is, on a terminal; nothing elsewhere."""
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
