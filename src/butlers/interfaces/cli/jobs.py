"""`butlers jobs`: what runs on a schedule, how it went, and running one now."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    example,
    with_butler,
)
from butlers.interfaces.cli.tables import Column, show_fields, show_json, show_line, show_table

if TYPE_CHECKING:
    from butlers.jobs.runs import Run
    from butlers.jobs.schedule import Planned

app = typer.Typer(
    help="What runs on a schedule, how it went, and running one now. Times are UTC.",
    invoke_without_command=True,
)

OwnButlerOption = Annotated[
    str | None, typer.Option("--butler", "-b", help="Which butler [default: general].")
]
_RUN = (Column("outcome"), Column("took", "right"), Column("told", wraps=True))


@app.callback()
def jobs(
    context: typer.Context,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs of a butler: when each runs, when next, and how it went last. Times are UTC."""
    context.obj = (butler, home)
    if context.invoked_subcommand is not None:
        return
    planned = with_butler(butler, home, lambda one: one.schedule().plan())
    if as_json:
        show_json([asdict(job) | {"last": job.last and _fields(job.last)} for job in planned])
        return
    columns = [*map(Column, ("job", "cron", "next run", "last run")), *_RUN]
    show_table(columns, [_planned_row(job) for job in planned])


@app.command("run", epilog=example("butlers jobs run consolidate"))
def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Which job.")],
    butler: OwnButlerOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job now, in this process, and tell what came of it; exits 1 if it failed."""
    chosen, place = _chosen(context, butler, home)
    done = with_butler(chosen, place, lambda one: one.schedule().run_now(name))
    if as_json:
        show_json(_fields(done))
    else:
        show_line(f"{done.job}: {done.outcome} in {_took(done)}")
        told = {"why": done.error} | (done.result or {})
        show_fields([(key.replace("_", " "), _plain(one)) for key, one in told.items() if one])
    if done.outcome == "failed":
        raise typer.Exit(1)


@app.command("history", epilog=example("butlers jobs history consolidate -n 5"))
def history(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Which job [default: all].")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 20,
    butler: OwnButlerOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was run, the newest first."""
    chosen, place = _chosen(context, butler, home)
    names = [name] if name else []
    runs = with_butler(chosen, place, lambda one: one.schedule().history(names, limit))
    if as_json:
        show_json([_fields(one) for one in runs])
        return
    columns = [*map(Column, ("job", "due", "started", "attempt")), *_RUN]
    show_table(columns, [_history_row(one) for one in runs])


@app.command("accept-clock", epilog=example("butlers jobs accept-clock"))
def accept_clock(
    context: typer.Context,
    butler: OwnButlerOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say that the clock is right, so that cleanup and decay sweep go on.

    They wait while the clock is more than a day ahead of what can have passed.
    """
    chosen, place = _chosen(context, butler, home)
    believed_at = with_butler(chosen, place, lambda one: one.clock_watch.accept())
    if as_json:
        show_json({"believed_at": believed_at})
    else:
        show_line(f"the clock of {chosen} is believed: it is {_when(believed_at)} UTC")


def _chosen(
    context: typer.Context, butler: str | None, home: Path | None
) -> tuple[str, Path | None]:
    """What was said after the subcommand, else what was said before it."""
    before: tuple[str, Path | None] = context.obj
    return butler or before[0], home or before[1]


def _fields(one: "Run") -> dict[str, Any]:
    return asdict(one) | {"seconds": one.seconds}


def _planned_row(job: "Planned") -> list[str]:
    next_at = _when(job.next_at) if job.next_at else "never"
    last = [_when(job.last.started_at), *_ending(job.last)] if job.last else ["never", "", "", ""]
    return [job.name, job.cron or "–", next_at, *last]


def _history_row(one: "Run") -> list[str]:
    return [one.job, _when(one.fire_at), _when(one.started_at), str(one.attempt), *_ending(one)]


def _ending(one: "Run") -> list[str]:
    told = f"by {one.worker}" if one.outcome == "running" else _summary(one.result or {})
    return [str(one.outcome), _took(one), one.error or told]


def _summary(result: dict[str, Any]) -> str:
    """What there is of a result besides noughts."""
    told = (f"{key.replace('_', ' ')}: {_plain(value)}" for key, value in result.items() if value)
    return ", ".join(told)


def _plain(value: Any) -> str:
    if value is True:
        return "yes"
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _took(one: "Run") -> str:
    return "" if one.seconds is None else f"{one.seconds:.1f} s"


def _when(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}"
