"""What operations that store or change something answer, as a person reads it."""

from collections.abc import Mapping
from typing import Any

from butlers.interfaces.cli.commands import View
from butlers.interfaces.cli.conflicts import show_found
from butlers.interfaces.cli.tables import Column, short_id, show_line, show_table
from butlers.interfaces.cli.wording import came_of, number, says

Row = Mapping[str, Any]
_STAYS, _WHY = Column("stays", wraps=True), Column("because it is")
_GIVES_WAY = Column("gives way", wraps=True)
_MOVES = (Column("id"), Column("state"), Column("sure", "right"), Column("moves", wraps=True))


def store_result_view(kind: str) -> View:
    """What was stored, and what else came of it."""

    def show(answer: Row, _: Row) -> None:
        show_line(came_of(answer, kind) + _about(answer))
        show_found(answer)

    return show


def done(word: str) -> View:
    """That something was done to a memory."""

    def show(_: Row, given: Row) -> None:
        named = (given.get("memory_type"), given["memory_id"])
        show_line(f"{word} {' '.join(filter(None, named))}")

    return show


def merge_preview(told: Row, _: Row) -> None:
    """What a merge would do, and to which facts."""
    counts = f"{told['facts_repointed']} facts would move, {told['facts_superseded']} give way, "
    show_line(f"{counts}{told['aliases_added']} names be added")
    rivals = [[says(one["stays"]), one["why"], says(one["gives_way"])] for one in told["rivalries"]]
    if rivals:
        show_table((_STAYS, _WHY, _GIVES_WAY), rivals)
    if told["repointed"]:
        show_table(_MOVES, [_moving(one) for one in told["repointed"]])


def parted(told: Row, _: Row) -> None:
    """What came of taking a merge back."""
    back = f"{told['facts_returned']} facts went back, {told['facts_restored']} hold again"
    show_line(f"parted {told['source_entity_id']} from {told['target_entity_id']}: {back}")
    if told["facts_left"]:
        show_line(f"superseded still, as another took their place: {', '.join(told['facts_left'])}")


def _about(answer: Row) -> str:
    if answer.get("anchored"):
        new = "a new entity" if answer.get("entity_created") else "entity"
        return f", about {new} {answer['entity_id']}"
    candidates = answer.get("entity_candidates")
    if not candidates:
        return ""
    best = candidates[0]
    likely = f"{best['canonical_name']} {best['entity_id']}, by {number(answer['margin'])}"
    return f"; its subject names {len(candidates)} entities or more, likeliest {likely}"


def _moving(fact: Row) -> list[str]:
    sure = number(fact["effective_confidence"])
    return [short_id(str(fact["id"])), str(fact["state"]), sure, says(fact)]
