"""`butlers memory dead-letters` and `butlers memory reembed`."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from butlers.doors.cli.memory.asking import TenantOption
from butlers.doors.cli.opening import with_butler
from butlers.doors.cli.options import ButlerOption, HomeOption, JsonOption
from butlers.doors.cli.tables import Column, show_json, show_line, show_table

if TYPE_CHECKING:
    from butlers.butler.butler import Butler
    from butlers.memory.flows.reembed import VersionStatus
    from butlers.memory.handle import Memory
    from butlers.memory.model import Lineage

T = TypeVar("T")


def dead_letters(
    requeue: Annotated[
        list[str] | None,
        typer.Option("--requeue", metavar="ID", help="Let this one be tried again."),
    ] = None,
    requeue_all: Annotated[
        bool, typer.Option("--requeue-all", help="Let all of them be tried again.")
    ] = False,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the episodes that could not be consolidated, with the reason, or requeue them."""
    from butlers.memory.flows import dead_letters as flow

    if requeue or requeue_all:
        ids = None if requeue_all else requeue
        count = _with_memory(butler, home, tenant, lambda m, by: flow.requeue(m, ids, by))
        if as_json:
            show_json({"requeued": count})
        else:
            show_line(f"requeued {count}")
        return
    letters = _with_memory(butler, home, tenant, flow.find_dead_letters)
    if as_json:
        show_json(letters)
    elif not letters:
        show_line("no dead letters")
    else:
        columns = [
            Column("id"),
            Column("attempts"),
            Column("reason"),
            Column("content", wraps=True),
        ]
        keys = ("id", "consolidation_attempts", "dead_letter_reason", "content")
        show_table(columns, [[str(letter[key]) for key in keys] for letter in letters])


def reembed(
    to: Annotated[
        Path | None, typer.Option("--to", help="Directory of the model to move to.")
    ] = None,
    bundled: Annotated[
        bool, typer.Option("--bundled", help="Move to the model that is installed.")
    ] = False,
    revert: Annotated[
        bool, typer.Option("--revert", help="Go back to the model used before.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Drop the vectors kept for going back.")
    ] = False,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move the memories of every tenant to another embedding model, while they are in use.

    Interrupted, it goes on where it stopped. Searches use the old model until all vectors of the
    new one are there; then it is switched at once. Without an option: what models are known.
    """
    from butlers.errors import InvalidInput

    if sum((to is not None, bundled, revert, discard)) > 1:
        raise InvalidInput("--to, --bundled, --revert and --discard: found several; valid is one")
    if to is not None or bundled:
        _move(butler, home, to)
    elif revert or discard:
        _step_back(butler, home, revert)
    _show_models(butler, home, as_json)


def _move(butler: str, home: Path | None, to: Path | None) -> None:
    from butlers.embedding import EmbeddingEngine, get_embedding_engine
    from butlers.memory.flows.reembed import reembed_all

    directory = to.expanduser().resolve() if to else None
    target = EmbeddingEngine(directory) if directory else get_embedding_engine()

    async def move(memory: "Memory", _: "Lineage") -> None:
        with _progress() as on_progress:
            reports = await reembed_all(
                memory, target, "cli", on_progress, str(directory) if directory else ""
            )
        _raise_failures(reports.failed)

    _with_memory(butler, home, None, move)


def _step_back(butler: str, home: Path | None, revert: bool) -> None:
    from butlers.memory.flows import reembed as flow
    from butlers.memory.flows.every_tenant import for_every_tenant

    async def step(memory: "Memory", _: "Lineage") -> None:
        job = flow.revert_reembedding if revert else flow.discard_previous
        reports = await for_every_tenant(memory, "cli", job)
        _raise_failures(reports.failed)

    _with_memory(butler, home, None, step)


def _raise_failures(failed: dict[str, str]) -> None:
    from butlers.errors import Unavailable

    if failed:
        raise Unavailable("\n".join(f"tenant {name}: {why}" for name, why in failed.items()))


def _show_models(butler: str, home: Path | None, as_json: bool) -> None:
    from butlers.memory.flows.every_tenant import for_every_tenant
    from butlers.memory.flows.reembed import reembedding_status

    async def status(memory: "Memory", _: "Lineage") -> "dict[str, list[VersionStatus]]":
        return (await for_every_tenant(memory, "cli", reembedding_status)).done

    rows = [
        _model_row(tenant, one)
        for tenant, models in _with_memory(butler, home, None, status).items()
        for one in models
    ]
    if as_json:
        show_json(rows)
    elif rows:
        columns = [Column(title) for title in rows[0]]
        show_table(columns, [[str(value) for value in row.values()] for row in rows])
    else:
        show_line("nothing is stored yet, so no model is in use")


def _model_row(tenant: str, status: "VersionStatus") -> dict[str, str | int]:
    return {
        "tenant": tenant,
        "model": status.version.name,
        "state": status.version.state.value,
        "embedded": status.counts.embedded,
        "of": status.counts.memories,
    }


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(
        console=Console(stderr=True), disable=not Console(stderr=True).is_terminal
    ) as bar:
        task = bar.add_task("embedding", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _with_memory(
    butler: str,
    home: Path | None,
    tenant: str | None,
    question: "Callable[[Memory, Lineage], Awaitable[T]]",
) -> T:
    from butlers.errors import Unavailable
    from butlers.memory.model import Lineage
    from butlers.memory.module import MemoryModule

    async def asked(opened: "Butler") -> T:
        module = opened.module("memory")
        if not isinstance(module, MemoryModule):
            raise Unavailable(f"butler {butler} has another memory module")
        lineage = Lineage(tenant or opened.settings.butler.tenant, "cli")
        return await question(module.memory, lineage)

    return with_butler(butler, home, asked)
