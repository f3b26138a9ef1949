"""`butlers cost`: what the language model was asked for, and what that cost."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butlers.doors.cli.opening import with_butler
from butlers.doors.cli.options import ButlerOption, HomeOption, JsonOption
from butlers.doors.cli.tables import Column, show_json, show_line, show_table

if TYPE_CHECKING:
    from butlers.butler.butler import Butler
    from butlers.jobs.spending import DaySpent, Spent
    from butlers.kernel.sections import Limits

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
    if as_json:
        show_json(_fields(told, today, limits))
        return
    if told:
        columns = [Column("day"), *(Column(_title(name), "right") for name in _NUMBERS)]
        show_table(columns, [_row(str(day["day"]), day) for day in [*_days(told), _total(told)]])
    else:
        show_line(f"nothing was asked of a language model in the last {days} days")
    show_line(f"today: {_budget(today, limits)}")


async def _ask(butler: "Butler", days: int) -> "tuple[list[DaySpent], Spent, Limits]":
    spending = butler.spending
    return await spending.days(days), await spending.today(), spending.limits


def _fields(told: "list[DaySpent]", today: "Spent", limits: "Limits") -> dict[str, Any]:
    total = {name: value for name, value in _total(told).items() if name != "day"}
    return {"days": _days(told), "total": total, "today": asdict(today), "limits": asdict(limits)}


def _days(told: "list[DaySpent]") -> list[dict[str, Any]]:
    return [asdict(one) | {"day": one.day.isoformat()} for one in told]


def _total(told: "list[DaySpent]") -> dict[str, Any]:
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in told) for name in _NUMBERS}
    return {"day": "total", **sums}


def _row(day: str, numbers: dict[str, Any]) -> list[str]:
    from butlers.jobs.spending import amount

    return [day, *(amount(numbers[name]) for name in _NUMBERS)]


def _title(name: str) -> str:
    return name.replace("_usd", " (USD)").replace("_", " ")


def _budget(today: "Spent", limits: "Limits") -> str:
    from butlers.jobs.spending import amount

    spent, allowed = asdict(today), asdict(limits)
    return "; ".join(
        f"{amount(spent[key])} of {amount(limit)} {_title(key)} ({_LIMITS[key]})"
        if limit
        else f"{amount(spent[key])} {_title(key)}, no limit"
        for key, limit in allowed.items()
    )
