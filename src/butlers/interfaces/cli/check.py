"""`butlers check`: whether what a butler remembers agrees with itself and with its audit log."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.options import HomeOption, JsonOption, find_home, with_butler
from butlers.interfaces.cli.output import progress_bar, show_json, show_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from butlers.host.butler import Butler
    from butlers.memory.flows.check import StoreCheck


def check(
    name: Annotated[str | None, typer.Argument(help="Which butler [default: each].")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Embed some memories again and compare the vectors.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make the search index anew where it is wrong.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that memories, audit log and search index agree; exits 1 if not.

    It reads everything and changes nothing. With --repair it makes wrong rows of the search index
    anew from the memories; it never changes memories or the audit log.
    """
    located, reports = find_home(home).checked(name), {}
    for each in [name] if name else located.butler_names():
        with progress_bar(unit="rows", enabled=not as_json) as update:
            how = {"deep": deep, "repair": repair, "on_progress": partial(_show_rows, update)}
            report = with_butler(each, home, partial(_check, how))
        reports[each] = report
        for line in [] if as_json else _lines(each, report):
            show_line(line)
    if as_json:
        show_json({each: report.as_dict() for each, report in reports.items()})
    if any(report.faulty for report in reports.values()):
        raise typer.Exit(1)


async def _check(how: "Mapping[str, Any]", butler: "Butler") -> "StoreCheck":
    return await butler.check(**how)


def _show_rows(update: "Callable[..., None]", rows: int) -> None:
    update(completed=rows)


def _lines(name: str, report: "StoreCheck") -> "Iterator[str]":
    yield from report.lines
    verdict = f"{report.faulty:,} findings" if report.faulty else "all agree"
    repaired = f", after {report.repaired:,} repairs of the index" if report.repaired else ""
    yield f"{name}: {report.checked:,} rows checked, {verdict}{repaired}"
    if report.unchecked:
        yield f"{name}: the pages of the indexes were not checked ({report.unchecked})"
