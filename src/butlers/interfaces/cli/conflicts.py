"""Facts that contradict or repeat each other, as a person reads of them."""

from collections.abc import Mapping
from typing import Any

from butlers.interfaces.cli.tables import Column, show_line, show_table
from butlers.interfaces.cli.wording import says

Row = Mapping[str, Any]
_COLUMNS = (
    Column("conflict"), Column("newer", wraps=True), Column("older", wraps=True),
    Column("why", wraps=True),
)  # fmt: skip
_KINDS = {"conflict": "contradicts", "same": "repeats"}


def show_found(stored: Row) -> None:
    """What a stored fact may not stand beside, a line each."""
    for one in stored.get("conflicts") or ():
        show_line(f"it {_KINDS[one['kind']]} “{one['says']}”: {one['why']}")
        show_line(f"  butlers memory settle {one['id']} newer|older|both|since|same")


def show_conflicts(page: Row, _: Row) -> None:
    """A page of conflicts, their ids whole, for `settle` asks for them."""
    if not page["items"]:
        show_line("no two facts are known to exclude each other")
        return
    rows = [
        [one["id"], says(one["newer"]), says(one["older"]), one["why"]] for one in page["items"]
    ]
    show_table(_COLUMNS, rows)
    if page["next_cursor"]:
        show_line(f"there is more: --cursor {page['next_cursor']}")
