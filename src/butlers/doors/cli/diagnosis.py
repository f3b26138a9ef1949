"""`butlers doctor`: what is wrong here, and what to do about it."""

import json
from typing import TYPE_CHECKING

import typer

from butlers.doors.cli.options import HomeOption, JsonOption

if TYPE_CHECKING:
    from butlers.doctor.finding import Finding

_COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "problem": typer.colors.RED}


def doctor(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Check everything that could be wrong and say what to do; exits 1 on a problem."""
    import asyncio

    from butlers.butler.home import Home
    from butlers.doctor.checks import examine
    from butlers.doctor.finding import Verdict

    findings = asyncio.run(examine(Home.locate(home)))
    if as_json:
        typer.echo(json.dumps([finding.shown() for finding in findings], indent=2))
    else:
        for finding in findings:
            _print(finding)
    if any(finding.verdict is Verdict.PROBLEM for finding in findings):
        raise typer.Exit(1)


def _print(finding: "Finding") -> None:
    verdict = typer.style(f"{finding.verdict:8}", fg=_COLOURS[finding.verdict])
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    typer.echo(f"{verdict} {finding.check}: {finding.message}{remedy}")
