"""How far what is stored is trusted, and what that makes of it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from butlers.kernel.text import clean
from butlers.kernel.words import folded
from butlers.memory.model import Lineage, New, Origin, Permanence, Trust
from butlers.memory.policy import doubt

LESS_TRUSTED = "it is less trusted than what it is about"
DRAWN_FROM_HELD = "drawn from an episode in quarantine"
_WORDS = {Trust.LOW: "low trust", Trust.STATED: ""}
_OWN_MARKS = "marked by its own author alone"
_SAID = " (said "

Row = Mapping[str, Any]
T = TypeVar("T")


def provenance(new: New, lineage: Lineage, source: Row | None = None) -> dict[str, Any]:
    """Who says a new memory, how far that is trusted, and why it is held, if it is.

    It is trusted no further than who brings it and the episode it is drawn from.
    """
    origin = new.origin or lineage.origin
    most = Trust(source["trust"]) if source else Trust.STATED
    held = new.doubt or (DRAWN_FROM_HELD if source and source["is_held"] else "")
    return {
        "origin": origin,
        "trust": min(origin.trust, lineage.trust, most),
        "stored_by": clean(lineage.actor),
        "quarantined": held if held and not origin.is_person else None,
    }


def origin_words(origin: str, trust: int) -> str:
    """What a reader is told of where a memory comes from; nothing of what was stated."""
    said, level = Origin(origin), Trust(trust)
    least = _WORDS.get(level, level.name.lower())
    if said.trust is level or said.trust is Trust.STATED:
        return least
    return f"{said} from {least}"


def standing_words(row: Row) -> str:
    """What a reader of one line is told of who stands behind a memory, if that is a reservation."""
    marked = _OWN_MARKS if row.get("own_marks") else ""
    said = origin_words(row["origin"], row["trust"])
    return ", ".join(filter(None, (said, marked, doubt.words(row))))


def with_origin(row: Row) -> dict[str, Any]:
    """A memory as it is told, with the words for where it comes from, if it was not stated."""
    return {**row, "less_trusted": origin_words(row["origin"], row["trust"]) or None}


def why_not_replaced(holder: Row, by: Trust) -> str | None:
    """Why what a model drew may not take the place of a fact without a yes, or None."""
    if holder["permanence"] == Permanence.PERMANENT:
        return "it would replace a permanent fact"
    if holder["trust"] == Trust.STATED:
        return "it would replace what somebody stated"
    return LESS_TRUSTED if holder["trust"] > min(Trust.INFERRED, by) else None


def is_lesser(row: Row) -> bool:
    """Whether a memory was not stated by anybody who is trusted."""
    return bool(row["trust"] < Trust.STATED)


def behind_the_more_trusted(ranked: Sequence[T], told: Mapping[T, Row]) -> list[T]:
    """The same order, but that of facts on one key none stands before a more trusted one."""
    places: dict[object, list[int]] = {}
    for place, one in enumerate(ranked):
        if "predicate" in told.get(one, ()):
            places.setdefault(_key(told[one]), []).append(place)
    ordered = list(ranked)
    for taken in places.values():
        by_trust = sorted(taken, key=lambda place: -told[ranked[place]]["trust"])
        for place, source in zip(taken, by_trust, strict=True):
            ordered[place] = ranked[source]
    return ordered


def in_their_places(ranked: Sequence[T], told: Mapping[T, Row]) -> list[T]:
    """The same order, but that its facts and its rules each stand as their authors allow."""
    ordered = behind_the_more_trusted(ranked, told)
    rules = {told[one]["id"]: one for one in ordered if "maturity" in told.get(one, ())}
    yielding = iter(behind_what_people_said([told[one] for one in rules.values()]))
    return [rules[next(yielding)["id"]] if one in rules.values() else one for one in ordered]


def behind_what_people_said(rules: Sequence[Row]) -> list[Row]:
    """Rules in their order, but that one lifted by its own author alone, or less trusted, stands
    behind every rule that a person stated."""
    said = [place for place, rule in enumerate(rules) if Origin(rule["origin"]).is_person]
    head, rest = (rules[: said[-1] + 1], rules[said[-1] + 1 :]) if said else ([], rules)
    yielding = [rule for rule in head if _yields(rule)]
    return [*(rule for rule in head if not _yields(rule)), *yielding, *rest]


def _yields(rule: Row) -> bool:
    return is_lesser(rule) or (rule["own_marks"] and not Origin(rule["origin"]).is_person)


def _key(fact: Row) -> tuple[str, str]:
    about = fact["entity_id"] or " ".join(folded(fact["subject"]).split())
    return str(about), " ".join(folded(fact["predicate"]).split(_SAID)[0].split())
