"""`butlers jobs` and `butlers cost`: scheduled jobs, their runs, and what the model cost."""

from dataclasses import asdict
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
from butlers.interfaces.cli.output import (
    TableColumn,
    show_fields,
    show_json,
    show_line,
    show_table,
    to_the_second,
)

if TYPE_CHECKING:
    from butlers.host.butler import Butler
    from butlers.jobs.runs import Run
    from butlers.jobs.schedule import Planned

app = typer.Typer(
    help="List, run and inspect scheduled jobs. Times are UTC.", invoke_without_command=True
)

OwnButlerOption = Annotated[
    str | None, typer.Option("--butler", "-b", help="Which butler [default: general].")
]
Row = dict[str, Any]
_RUN = (TableColumn("outcome"), TableColumn("took", "right"), TableColumn("result", wraps=True))
_NUMBERS = ("runs", "failed", "input_tokens", "output_tokens", "cost_usd")
_LIMITS = {"runs": "daily_max_runs", "tokens": "daily_max_tokens", "cost_usd": "daily_max_cost_usd"}


@app.callback()
def jobs(
    context: typer.Context,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs of a butler: schedule, next run, last run and its result. Times are UTC."""
    context.obj = (butler, home)
    if context.invoked_subcommand is not None:
        return
    planned = with_butler(butler, home, lambda opened: opened.schedule().plan())
    if as_json:
        show_json([asdict(job) | {"last": job.last and _fields(job.last)} for job in planned])
        return
    columns = [*map(TableColumn, ("job", "cron", "next run", "last run")), *_RUN]
    show_table(columns, [_planned_row(job) for job in planned])


@app.command("run", epilog=example("butlers jobs run consolidate"))
def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Which job.")],
    butler: OwnButlerOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job now, in this process, and print its result; exits 1 if it failed."""
    chosen, directory = _chosen(context, butler, home)
    done = with_butler(chosen, directory, lambda opened: opened.schedule().run_now(name))
    if as_json:
        show_json(_fields(done))
    else:
        show_line(f"{done.job}: {done.outcome} in {_took(done)}")
        result = {"reason": done.error} | (done.result or {})
        fields = [(key.replace("_", " "), _plain(value)) for key, value in result.items() if value]
        show_fields(fields)
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
    """List past runs, newest first."""
    chosen, directory = _chosen(context, butler, home)
    names = [name] if name else []
    runs = with_butler(chosen, directory, lambda opened: opened.schedule().history(names, limit))
    if as_json:
        show_json([_fields(run) for run in runs])
        return
    columns = [*map(TableColumn, ("job", "due", "started", "attempt")), *_RUN]
    show_table(columns, [_history_row(run) for run in runs])


@app.command("accept-clock", epilog=example("butlers jobs accept-clock"))
def accept_clock(
    context: typer.Context,
    butler: OwnButlerOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Confirm that the system clock is right, so that paused cleanup jobs run again.

    Cleanup and decay sweep pause when the clock jumps more than a day ahead.
    """
    chosen, directory = _chosen(context, butler, home)
    believed_at = with_butler(chosen, directory, lambda opened: opened.clock_watch.accept())
    if as_json:
        show_json({"believed_at": believed_at})
    else:
        show_line(f"clock of {chosen} accepted: {to_the_second(believed_at)} UTC")


def _chosen(
    context: typer.Context, butler: str | None, home: Path | None
) -> tuple[str, Path | None]:
    """Take the options after the subcommand, else those before it."""
    before: tuple[str, Path | None] = context.obj
    return butler or before[0], home or before[1]


def _fields(run: "Run") -> Row:
    return asdict(run) | {"seconds": run.seconds}


def _planned_row(job: "Planned") -> list[str]:
    next_at = to_the_second(job.next_at) if job.next_at else "never"
    last = ["never", "", "", ""]
    if job.last:
        last = [to_the_second(job.last.started_at), *_ending(job.last)]
    return [job.name, job.cron or "–", next_at, *last]


def _history_row(run: "Run") -> list[str]:
    times = [to_the_second(run.fire_at), to_the_second(run.started_at)]
    return [run.job, *times, str(run.attempt), *_ending(run)]


def _ending(run: "Run") -> list[str]:
    result = f"by {run.worker}" if run.outcome == "running" else _summary(run.result or {})
    return [str(run.outcome), _took(run), run.error or result]


def _summary(result: Row) -> str:
    """The fields of a result that are not zero or empty."""
    parts = (f"{key.replace('_', ' ')}: {_plain(value)}" for key, value in result.items() if value)
    return ", ".join(parts)


def _plain(value: Any) -> str:
    if value is True:
        return "yes"
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _took(run: "Run") -> str:
    return "" if run.seconds is None else f"{run.seconds:.1f} s"


def cost(
    days: Annotated[int, typer.Option(min=1, max=36_500, help="How many days back.")] = 30,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the language model cost per day (UTC), and what is left of today's budget.

    Tokens and dollars are those the runtime reports; not every runtime does.
    """
    spent, today, limits = with_butler(butler, home, lambda opened: _spending(opened, days))
    total = {name: sum(day[name] for day in spent) for name in _NUMBERS}
    if as_json:
        show_json({"days": spent, "total": total, "today": today, "limits": limits})
        return
    if spent:
        columns = [TableColumn("day"), *(TableColumn(_title(name), "right") for name in _NUMBERS)]
        show_table(columns, [_cost_row(day) for day in [*spent, {"day": "total", **total}]])
    else:
        show_line(f"no language model was used in the last {days} days")
    show_line(f"today: {_budget(today, limits)}")


async def _spending(butler: "Butler", days: int) -> tuple[list[Row], Row, Row]:
    """Read what each day cost, what today cost, and the daily limits."""
    spending = butler.spending
    spent = [asdict(day) for day in await spending.days(days)]
    limits = {name: getattr(spending.limits, name) for name in _LIMITS}
    return spent, asdict(await spending.today()), limits


def _cost_row(day: Row) -> list[str]:
    from butlers.jobs.spending import amount

    return [str(day["day"]), *(amount(day[name]) for name in _NUMBERS)]


def _title(name: str) -> str:
    return name.replace("_usd", " (USD)").replace("_", " ")


def _budget(spent: Row, limits: Row) -> str:
    from butlers.jobs.spending import amount

    return "; ".join(
        f"{amount(spent[key])} of {amount(limit)} {_title(key)} ({_LIMITS[key]})"
        if limit
        else f"{amount(spent[key])} {_title(key)}, no limit"
        for key, limit in limits.items()
    )
