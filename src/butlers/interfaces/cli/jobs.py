"""`butlers jobs` and `butlers cost`: scheduled jobs, their runs, and what the model cost."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from butlers.interfaces.cli.options import (
    ButlerOption,
    HomeOption,
    JsonOption,
    LimitOption,
    example,
    with_butler,
)
from butlers.interfaces.cli.output import (
    show_fields,
    show_json,
    show_line,
    show_table,
    to_the_second,
    when,
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
T = TypeVar("T")
_RUN = ("outcome", "took", "result")
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
    _show_runs(("job", "cron", "next run", "last run"), [_planned_row(job) for job in planned])


@app.command("run", epilog=example("butlers jobs run consolidate"))
def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Which job.")],
    butler: OwnButlerOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job now, in this process, and print its result; exits 1 if it failed."""
    done = _with_butler(context, butler, home, lambda opened: opened.schedule().run_now(name))
    if as_json:
        show_json(_fields(done))
    else:
        show_line(f"{done.job}: {done.outcome} in {_took(done)}")
        show_fields(*_filled({"reason": done.error} | (done.result or {})))
    if done.outcome == "failed":
        raise typer.Exit(1)


@app.command("history", epilog=example("butlers jobs history consolidate -n 5"))
def history(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Which job [default: all].")] = None,
    limit: LimitOption = 20,
    butler: OwnButlerOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List past runs, newest first."""
    names = [name] if name else []
    runs = _with_butler(
        context, butler, home, lambda opened: opened.schedule().history(names, limit)
    )
    if as_json:
        show_json([_fields(run) for run in runs])
        return
    _show_runs(("job", "due", "started", "attempt"), [_history_row(run) for run in runs])


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
    accepted_at = _with_butler(context, butler, home, lambda opened: opened.clock_watch.accept())
    if as_json:
        show_json({"believed_at": accepted_at})
    else:
        show_line(f"clock of {butler or context.obj[0]} accepted: {to_the_second(accepted_at)} UTC")


def _with_butler(
    context: typer.Context,
    butler: str | None,
    home: Path | None,
    work: "Callable[[Butler], Awaitable[T]]",
) -> T:
    """Open the butler that the options after the subcommand name, else those before it."""
    return with_butler(butler or context.obj[0], home or context.obj[1], work)


def _show_runs(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    show_table([*titles, *_RUN], rows, right=("took",), wraps=("result",))


def _fields(run: "Run") -> Row:
    return asdict(run) | {"seconds": run.seconds}


def _planned_row(job: "Planned") -> list[str]:
    next_at = when(job.next_at) or "never"
    started = when(job.last.started_at) if job.last else "never"
    ending = _ending(job.last) if job.last else ["", "", ""]
    return [job.name, job.cron or "–", next_at, started, *ending]


def _history_row(run: "Run") -> list[str]:
    times = [to_the_second(run.fire_at), to_the_second(run.started_at)]
    return [run.job, *times, str(run.attempt), *_ending(run)]


def _ending(run: "Run") -> list[str]:
    filled = ", ".join(f"{name}: {value}" for name, value in _filled(run.result or {}))
    result = f"by {run.worker}" if run.outcome == "running" else filled
    return [str(run.outcome), _took(run), run.error or result]


def _filled(result: Row) -> list[tuple[str, str]]:
    """Return the fields of a result that are not zero or empty."""
    return [(key.replace("_", " "), _plain(value)) for key, value in result.items() if value]


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

    Tokens and dollars are as the runtime reports them; some runtimes report none.
    """
    from butlers.jobs.spending import amount

    spent, today, limits = with_butler(butler, home, lambda opened: _spending(opened, days))
    total = {name: sum(day[name] for day in spent) for name in _NUMBERS}
    if as_json:
        show_json({"days": spent, "total": total, "today": today, "limits": limits})
        return
    if spent:
        titles = [_title(name) for name in _NUMBERS]
        rows = [
            [str(day["day"]), *(amount(day[name]) for name in _NUMBERS)]
            for day in [*spent, {"day": "total", **total}]
        ]
        show_table(["day", *titles], rows, right=titles)
    else:
        show_line(f"no language model was used in the last {days} days")
    budget = (
        f"{amount(today[key])} of {amount(limit)} {_title(key)} ({_LIMITS[key]})"
        if limit
        else f"{amount(today[key])} {_title(key)}, no limit"
        for key, limit in limits.items()
    )
    show_line(f"today: {'; '.join(budget)}")


async def _spending(butler: "Butler", days: int) -> tuple[list[Row], Row, Row]:
    """Read what each day cost, what today cost, and the daily limits."""
    spending = butler.spending
    spent = [asdict(day) for day in await spending.days(days)]
    limits = {name: getattr(spending.limits, name) for name in _LIMITS}
    return spent, asdict(await spending.today()), limits


def _title(name: str) -> str:
    return name.replace("_usd", " (USD)").replace("_", " ")
