"""Trust and doubt: how far a memory is trusted, what readers see of it, and how it ranks."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from butlers.kernel.text import clean, folded, one_line
from butlers.memory.model import Lineage, New, Origin, Permanence, Provenance, Trust

LESS_TRUSTED = "it is less trusted than what it is about"
UNSEEN = "a small model is not shown what it would replace"
DRAWN_FROM_HELD = "drawn from an episode in quarantine"
_WORDS = {Trust.LOW: "low trust", Trust.STATED: ""}
_OWN_MARKS = "marked by its own author alone"
_SAID = " (said "
_MAX_EXCERPT = 200

Row = Mapping[str, Any]
T = TypeVar("T")


def is_demoted(row: Row) -> bool:
    """Whether a memory ranks behind current ones: it is outdated, or rests on what is."""
    return bool(row.get("outdated_by") or row.get("in_doubt"))


def may_answer(row: Row) -> bool:
    """Whether a memory may answer: an episode whose facts were superseded may not."""
    return not row.get("outdated_by")


def demote_doubted(ranked: Sequence[T], rows: Mapping[T, Row]) -> list[T]:
    """Keep the order, but move what is in doubt behind what is not, and outdated episodes last."""
    return sorted(
        ranked,
        key=lambda ref: 2 if rows[ref].get("outdated_by") else bool(rows[ref].get("in_doubt")),
    )


def excerpt_of(row: Row) -> dict[str, Any]:
    """Return a memory's type, id and the beginning of what it says."""
    about = " ".join(str(row[name]) for name in ("subject", "predicate") if row.get(name))
    says = one_line(f"{about}: {row['content']}" if about else str(row["content"]))
    cut = says if len(says) <= _MAX_EXCERPT else f"{says[:_MAX_EXCERPT].rstrip()}…"
    return {"memory_type": row["memory_type"], "id": row["id"], "says": cut}


def provenance(new: New, lineage: Lineage, source: Row | None = None) -> Provenance:
    """Return a new memory's origin, trust and author, and why it is quarantined, if it is.

    It is trusted no further than the caller and the episode it is drawn from. What a person says
    is never quarantined; a document's caller states nothing in a person's name.
    """
    origin = min(new.origin or lineage.origin, lineage.origin, key=lambda one: one.trust)
    most = Trust(source["trust"]) if source else Trust.STATED
    held = new.doubt or (DRAWN_FROM_HELD if source and source["is_held"] else "")
    return Provenance(
        origin,
        min(origin.trust, lineage.origin.trust, lineage.ceiling, most),
        stored_by=clean(lineage.actor),
        quarantined=held if held and not origin.is_person else None,
    )


def _origin_words(origin: Origin, trust: Trust) -> str:
    words = _WORDS.get(trust, trust.name.lower())
    return words if origin.trust in (trust, Trust.STATED) else f"{origin} from {words}"


ORIGIN_WORDS = {
    (origin, trust): _origin_words(origin, trust) for origin in Origin for trust in Trust
}
"""Where a memory comes from, by origin and trust; empty for what somebody trusted stated."""


def reservations(row: Row) -> str:
    """List what a reader should know against a memory: its origin, its marks, its doubt."""
    origin = ORIGIN_WORDS[row["origin"], row["trust"]]
    marked = _OWN_MARKS if row.get("own_marks") else ""
    doubt = "in doubt" if row.get("in_doubt") else ""
    harm = "reported harmful" if (row.get("metadata") or {}).get("reported_harmful") else ""
    return ", ".join(filter(None, (origin, marked, doubt, harm)))


def with_origin(row: Row) -> dict[str, Any]:
    """Add `less_trusted`: where a memory comes from, unless somebody trusted stated it."""
    return {**row, "less_trusted": ORIGIN_WORDS[row["origin"], row["trust"]] or None}


def kept_for(permanence: Permanence, trust: Trust) -> Permanence:
    """Return how long a fact is kept: what has low trust fades, however it was stored."""
    is_lasting = trust is Trust.LOW and permanence in (Permanence.PERMANENT, Permanence.STABLE)
    return Permanence.STANDARD if is_lasting else permanence


def why_not_replaced(holder: Row, by: Trust) -> str | None:
    """Say why a model's inference may not replace a fact without approval; None if it may."""
    if holder["permanence"] == Permanence.PERMANENT:
        return "it would replace a permanent fact"
    if holder["trust"] == Trust.STATED:
        return "it would replace what somebody stated"
    return LESS_TRUSTED if holder["trust"] > min(Trust.INFERRED, by) else None


def order_by_trust(ranked: Sequence[T], rows: Mapping[T, Row]) -> list[T]:
    """Keep the order, but let facts and rules each rank behind more trusted ones of their kind."""
    levels = {rows[ref]["trust"] for ref in ranked if "predicate" in rows.get(ref, ())}
    ordered = order_facts_by_trust(ranked, rows) if len(levels) > 1 else list(ranked)
    rules = {rows[ref]["id"]: ref for ref in ordered if "maturity" in rows.get(ref, ())}
    if len(rules) <= 1:
        return ordered
    by_trust = iter(order_rules_by_trust([rows[ref] for ref in rules.values()]))
    return [rules[next(by_trust)["id"]] if ref in rules.values() else ref for ref in ordered]


def order_facts_by_trust(ranked: Sequence[T], rows: Mapping[T, Row]) -> list[T]:
    """Keep the order, but let no fact rank before a more trusted one on the same key."""
    positions: dict[object, list[int]] = {}
    for position, ref in enumerate(ranked):
        if "predicate" in rows.get(ref, ()):
            positions.setdefault(_key(rows[ref]), []).append(position)
    ordered = list(ranked)
    for taken in positions.values():
        by_trust = sorted(taken, key=lambda position: -rows[ranked[position]]["trust"])
        for position, source in zip(taken, by_trust, strict=True):
            ordered[position] = ranked[source]
    return ordered


def order_rules_by_trust(rules: Sequence[Row]) -> list[Row]:
    """Keep the order, but let a rule that is less trusted, or marked by its author alone, rank
    behind every rule that a person stated."""
    by_people = [number for number, rule in enumerate(rules) if Origin(rule["origin"]).is_person]
    last = by_people[-1] + 1 if by_people else 0
    head, rest = rules[:last], rules[last:]
    demoted = [rule for rule in head if _is_behind_people(rule)]
    return [*(rule for rule in head if not _is_behind_people(rule)), *demoted, *rest]


def _is_behind_people(rule: Row) -> bool:
    is_lesser: bool = rule["trust"] < Trust.STATED
    return is_lesser or (rule["own_marks"] and not Origin(rule["origin"]).is_person)


def _key(fact: Row) -> tuple[str, str]:
    about = fact["entity_id"] or " ".join(folded(fact["subject"]).split())
    return str(about), " ".join(folded(fact["predicate"]).split(_SAID)[0].split())
