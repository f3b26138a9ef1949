"""`butlers cost`: what the language model was asked for, and what that cost."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.interfaces.cli.options import ButlerOption, HomeOption, JsonOption, with_butler
from butlers.interfaces.cli.tables import Column, show_json, show_line, show_table

if TYPE_CHECKING:
    from butlers.host.butler import Butler

Row = dict[str, Any]
_NUMBERS = ("runs", "failed", "input_tokens", "output_tokens", "cost_usd")
_LIMITS = {"runs": "daily_max_runs", "tokens": "daily_max_tokens", "cost_usd": "daily_max_cost_usd"}


def cost(
    days: Annotated[int, typer.Option(min=1, max=36_500, help="How many days back.")] = 30,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell what the language model cost, day by day in UTC, and what is left of today's budget.

    Tokens and dollars are those the runtime reports; not every one does.
    """
    told, today, limits = with_butler(butler, home, lambda one: _ask(one, days))
    total = {name: sum(day[name] for day in told) for name in _NUMBERS}
    if as_json:
        show_json({"days": told, "total": total, "today": today, "limits": limits})
        return
    if told:
        columns = [Column("day"), *(Column(_title(name), "right") for name in _NUMBERS)]
        show_table(columns, [_row(day) for day in [*told, {"day": "total", **total}]])
    else:
        show_line(f"nothing was asked of a language model in the last {days} days")
    show_line(f"today: {_budget(today, limits)}")


async def _ask(butler: "Butler", days: int) -> tuple[list[Row], Row, Row]:
    """What each day came to, what today did, and what it may come to."""
    spending = butler.spending
    told = [asdict(one) for one in await spending.days(days)]
    limits = {name: getattr(spending.limits, name) for name in _LIMITS}
    return told, asdict(await spending.today()), limits


def _row(day: Row) -> list[str]:
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
