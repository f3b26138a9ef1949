"""Whether the audit trail holds, as a person reads it."""

from collections.abc import Mapping
from typing import Any

import typer

from butlers.interfaces.cli.tables import Column, show_fields, show_line, show_table
from butlers.interfaces.cli.wording import when

_FAULTS = {
    "changed": "says something else than it did",
    "missing": "is gone",
    "gap": "stands after places that are gone",
    "added": "was told in no way events are told",
    "erased": "lost texts that no event tells were erased",
    "head": "is not the head that was noted: what that stood for was cut off or rewritten",
}


def verified(told: Mapping[str, Any], _: Mapping[str, Any]) -> None:
    """The answer in a line or two, the faults in a table; exits 1 where there are any."""
    erased = f", {told['erased']:,} with texts erased" if told["erased"] else ""
    standing = "intact" if told["intact"] else f"not intact, {told['faulty']:,} faults"
    show_line(f"{told['events']:,} events{erased}: {standing}")
    show_fields([(name, value) for name, value in _heads(told) if value])
    if told["intact"]:
        return
    columns = (Column("place", "right"), Column("event"), Column("when (UTC)"))
    rows = [[*_where(fault), _FAULTS[fault["fault"]]] for fault in told["faults"]]
    show_table((*columns, Column("fault", wraps=True)), rows)
    raise typer.Exit(1)


def _heads(told: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    since = told["since_head"]
    return [("head", told["head"]), ("since the head noted", since and f"{since:,} events")]


def _where(fault: Mapping[str, Any]) -> list[str]:
    at = when(fault["at"]) if fault["at"] else "–"
    return [str(fault["number"] or "–"), str(fault["event_id"] or "–"), at]
