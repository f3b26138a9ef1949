"""`butlers check`: whether what a butler remembers agrees with itself and with its audit log."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.options import HomeOption, JsonOption, find_home, with_butler
from butlers.interfaces.cli.output import progress_bar, show_json, show_line

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.memory.flows.check import StoreCheck

_COUNTS = ("checked", "faulty", "repaired", "unchecked")


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
    located = find_home(home).checked(name)
    work, reports = partial(_check, deep=deep, repair=repair, shown=not as_json), {}
    for each in [name] if name else located.butler_names():
        report = reports[each] = with_butler(each, home, work)
        if not as_json:
            _show(each, report)
    if as_json:
        show_json({each: _fields(report) for each, report in reports.items()})
    if any(report.faulty for report in reports.values()):
        raise typer.Exit(1)


async def _check(butler: "Butler", *, shown: bool, **how: bool) -> "StoreCheck":
    from butlers.host.hosting import check_butler

    with progress_bar(unit="rows", enabled=shown) as update:
        return await check_butler(butler, **how, on_progress=lambda rows: update(completed=rows))


def _fields(report: "StoreCheck") -> dict[str, Any]:
    counts = {name: getattr(report, name) for name in _COUNTS}
    return counts | {"findings": [asdict(one) for one in report.findings]}


def _show(name: str, report: "StoreCheck") -> None:
    verdict = f"{report.faulty:,} findings" if report.faulty else "all agree"
    repaired = f", after {report.repaired:,} repairs of the index" if report.repaired else ""
    unchecked = f"; pages of indexes not checked: {report.unchecked}" if report.unchecked else ""
    for line in report.lines:
        show_line(line)
    show_line(f"{name}: {report.checked:,} rows checked, {verdict}{repaired}{unchecked}")
