"""What holds, what is in doubt and what is outdated, as a person reads it."""

from collections.abc import Mapping, Sequence
from typing import Any

from butlers.interfaces.cli.commands import View
from butlers.interfaces.cli.tables import short_id, show_line
from butlers.interfaces.cli.wording import happened, says, when

Row = Mapping[str, Any]


def validity_lines(told: Row) -> list[tuple[str, str]]:
    """Since when a memory holds, what it rests on, and what it is outdated by."""
    grounds = [_ground(one) for one in told.get("grounds", ())]
    outdated = [_ground(one) for one in told.get("outdated_by", ())]
    window = _window(told["memory"], told.get("holds"))
    fields = [("held", window), ("rests on", _lines(grounds)), ("outdated by", _lines(outdated))]
    return [*fields, ("in doubt", "yes" if told["memory"].get("in_doubt") else "")]


def _window(memory: Row, holds: bool | None) -> str:
    since, until = memory.get("valid_from"), memory.get("valid_to")
    if since is None and until is None:
        return ""
    if since == until:
        return "never: it was put right"
    words = [f"since {when(since)}" if since else "", f"until {when(until)}" if until else ""]
    return " ".join(filter(None, words)) + ("" if holds else ", not at the time asked for")


def _ground(one: Row) -> str:
    kind, id = one.get("memory_type") or "memory", short_id(one["id"])
    said = f": {says(one)}" if one.get("content") else ""
    fell = "" if one["stands"] else f", {one['state']}"
    last = one.get("event_type") if not one["stands"] else None
    return f"{kind} {id}{said}{fell}" + (
        f" ({happened(last)} {when(one['happened_at'])})" if last else ""
    )


def with_doubts(view: View) -> View:
    """An answer as before, and what fell into doubt by it."""

    def show(answer: Row, given: Row) -> None:
        view(answer, given)
        for one in answer.get("in_doubt") or ():
            show_line(f"in doubt now: {one['memory_type']} {short_id(one['id'])}: {one['says']}")
        if answer.get("in_doubt"):
            show_line("keep or forget what is in doubt: butlers memory doubts lists it")

    return show


def with_sources(view: View) -> View:
    """An answer as before, and the episodes that what was forgotten came from."""

    def show(answer: Row, given: Row) -> None:
        view(answer, given)
        for one in answer.get("sources_forgotten") or ():
            show_line(f"forgot episode {short_id(one['id'])} as well: {one['says']}")
        for one in answer.get("sources") or ():
            show_line(f"it came from an episode: {one['says']}")
            show_line(f"to forget that too: butlers memory forget episode {one['id']}")

    return show


def doubted(rows: Sequence[Row], _: Row) -> None:
    """What is in doubt, and because of what."""
    for one in rows:
        show_line(f"{one['memory_type']} {short_id(one['id'])}: {says(one)}")
        for ground in one["because"]:
            show_line(f"  because of {_ground({'stands': False, **ground})}")
    told = "butlers memory keep ID, or forget ID" if rows else "nothing is in doubt"
    show_line(told)


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(" ".join(line.split()) for line in lines)
