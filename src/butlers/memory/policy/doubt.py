"""What yields to what holds: what rests on something that fell, and episodes that are outdated."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from butlers.kernel.text import one_line

Row = Mapping[str, Any]
T = TypeVar("T")
_SAYS = 200


def is_demoted(row: Row) -> bool:
    """Whether a memory stands behind those that hold."""
    return _step(row) > 0


def may_answer(row: Row) -> bool:
    """Whether a memory may answer by itself: not by what was drawn from it and holds no more."""
    return not row.get("outdated_by")


def demote_doubted(ranked: Sequence[T], told: Mapping[T, Row]) -> list[T]:
    """The same order, but what is in doubt behind what is not, and what is outdated last."""
    return sorted(ranked, key=lambda one: _step(told[one]))


def words(row: Row) -> str:
    """What a reader is told of a memory that rests on what does not stand."""
    return "in doubt" if row.get("in_doubt") else ""


def _step(row: Row) -> int:
    if row.get("outdated_by"):
        return 2
    return 1 if row.get("in_doubt") else 0


def told_briefly(row: Row) -> dict[str, Any]:
    """A memory as an answer about another names it: its kind, its id and what it says."""
    about = " ".join(str(row[name]) for name in ("subject", "predicate") if row.get(name))
    says = one_line(f"{about}: {row['content']}" if about else str(row["content"]))
    cut = says if len(says) <= _SAYS else f"{says[:_SAYS].rstrip()}…"
    return {"memory_type": row["memory_type"], "id": row["id"], "says": cut}
