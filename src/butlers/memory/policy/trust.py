"""Trust and doubt: how far a memory is trusted, what readers see of it, and how it ranks."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from butlers.kernel.text import clean, folded, one_line
from butlers.memory.model import Lineage, New, Origin, Permanence, PieceKind, Provenance, Trust

LESS_TRUSTED = "it is less trusted than what it is about"
UNSEEN = "a small model is not shown what it would replace"
DRAWN_FROM_HELD = "drawn from an episode in quarantine"
MAYBE_PASTED = "the user may have pasted it, and not said it"
IMPORTED = "import"
"""The agent of what was imported."""
_MARKS: dict[Any, str] = {
    Origin.INFERRED: "inferred",
    Origin.DOCUMENT: "from a page",
    Origin.TOOL: "from a tool",
    (Origin.AGENT, PieceKind.ANSWER): "an answer",
    (Origin.AGENT, PieceKind.FAILURE): "from a tool",
    (Origin.AGENT, PieceKind.FILES): "from a tool",
    (Origin.DOCUMENT, PieceKind.SAID): "pasted",
}
"""What names a source besides the agent, by origin and piece of a session."""
_LOW_WORDS = "low trust"
_LESSER = {origin.trust: _MARKS[origin] for origin in Origin if origin in _MARKS} | {
    Trust.LOW: _LOW_WORDS
}
_OWN_MARKS = "marked by its own author alone"
_SAID = " (said "
_MAX_EXCERPT, _LONGEST_NAME = 200, 40
_NOT_A_NAME = re.compile(r"[^\w.-]+")
LOW_TRUST_SHARE = 0.25
"""How much of a result, a block or a limit memories of low trust take at most."""
_FEW = 2
"""So many may join however little else is told, if they are a share of the limit."""

Row = Mapping[str, Any]
T = TypeVar("T")


def is_demoted(row: Row) -> bool:
    """Whether a memory ranks behind current ones: it is outdated, or rests on what is."""
    return bool(row.get("outdated_by") or row.get("in_doubt"))


def may_answer(row: Row) -> bool:
    """Whether a memory may answer: an episode whose facts were superseded may not."""
    return not row.get("outdated_by")


def apart(memories: Iterable[T], trust: Callable[[T], int]) -> tuple[list[T], list[T]]:
    """Part memories of low trust from all others: they are told behind these, and few of them."""
    parts: tuple[list[T], list[T]] = ([], [])
    for one in memories:
        parts[trust(one) == Trust.LOW].append(one)
    return parts


def shown_trust(result: Row) -> Trust:
    """Return what a result tells of trust, which may be only that it is low."""
    return Trust.LOW if _LOW_WORDS in (result.get("less_trusted") or "") else Trust.STATED


def low_trust_room(others: int, limit: int) -> int:
    """Return how many memories of low trust may be told behind so many others within a limit."""
    share = LOW_TRUST_SHARE / (1 - LOW_TRUST_SHARE)
    most = min(max(1, int(limit * LOW_TRUST_SHARE)), max(_FEW, int(others * share)))
    return max(0, min(limit - others, most))


def joined_results(others: Sequence[T], low: Sequence[T], answering: int, limit: int) -> list[T]:
    """Join what a search found: low trust comes last.

    A share is kept free for those of it that answer; otherwise it takes the room that is left.
    """
    share = min(answering, max(1, int(limit * LOW_TRUST_SHARE)), limit - 1)
    first = others[: limit - share]
    return [*first, *low[: limit - len(first)]]


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

    It is trusted no further than the caller and the episode it is drawn from. Nothing that a
    person stores is quarantined; what a transcript says in their name may be.
    """
    # A caller that passes on a document states nothing in a person's name.
    origin = min(new.origin or lineage.origin, lineage.origin, key=lambda one: one.trust)
    most = Trust(source["trust"]) if source else Trust.STATED
    held = new.doubt or (DRAWN_FROM_HELD if source and source["is_held"] else "")
    return Provenance(
        origin,
        min(origin.trust, lineage.origin.trust, lineage.ceiling, most),
        stored_by=clean(lineage.actor),
        quarantined=held if held and not lineage.origin.is_person else None,
        agent=clean(lineage.agent) or None,
    )


def restating(provenance: Provenance, before: Row) -> Provenance:
    """Return the provenance of a fact that repeats another: what a person said stays a person's."""
    by = before["accepted_by"] or before["stored_by"]
    return replace(provenance, accepted_by=by) if is_from_person(before) else provenance


def is_from_person(row: Row) -> bool:
    """Whether a person typed a memory, accepted or confirmed it."""
    typed = Origin(row["origin"]).is_person and row["trust"] == Trust.STATED
    return bool(row.get("accepted_by")) or (typed and row.get("agent") != IMPORTED)


def source_mark(row: Row) -> str:
    """Name the source of a memory; "" for what a person typed, accepted or confirmed."""
    if row.get("piece") and (row.get("metadata") or {}).get("unsure"):
        return "typed or pasted"
    if is_from_person(row):
        return ""
    origin, trust, agent = Origin(row["origin"]), row["trust"], row.get("agent")
    named = _MARKS.get((origin, row.get("piece"))) or _MARKS.get(origin, "")
    if origin is Origin.AGENT and not named:
        named = f"via {_NOT_A_NAME.sub('-', agent)[:_LONGEST_NAME] if agent else 'an agent'}"
    lesser = _LESSER[trust] if trust < origin.trust else ""
    return ", ".join(filter(None, ("imported" if agent == IMPORTED else named, lesser)))


def reservations(row: Row) -> str:
    """List what a reader should know of a memory: its source, its marks, its doubt."""
    origin = source_mark(row)
    marked = _OWN_MARKS if row.get("own_marks") else ""
    doubt = "in doubt" if row.get("in_doubt") else ""
    harm = "reported harmful" if (row.get("metadata") or {}).get("reported_harmful") else ""
    return ", ".join(filter(None, (origin, marked, doubt, harm)))


def with_origin(row: Row) -> dict[str, Any]:
    """Add `source`, its source mark, and `less_trusted`: the same where nobody stated it."""
    mark = source_mark(row) or None
    return {**row, "source": mark, "less_trusted": mark if row["trust"] < Trust.STATED else None}


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


def order_by_trust(relevance: Mapping[T, float], rows: Mapping[T, Row]) -> list[T]:
    """Keep the order, but let facts and rules each rank behind more trusted ones of their kind."""
    ranked = people_first(relevance, rows)
    levels = {_authority(rows[ref]) for ref in ranked if "predicate" in rows.get(ref, ())}
    ordered = order_facts_by_trust(ranked, rows) if len(levels) > 1 else list(ranked)
    rules = {rows[ref]["id"]: ref for ref in ordered if "maturity" in rows.get(ref, ())}
    if len(rules) <= 1:
        return ordered
    by_trust = iter(order_rules_by_trust([rows[ref] for ref in rules.values()]))
    return [rules[next(by_trust)["id"]] if ref in rules.values() else ref for ref in ordered]


def order_facts_by_trust(ranked: Sequence[T], rows: Mapping[T, Row]) -> list[T]:
    """Keep the order, but let no fact rank before a more trusted one on the same key.

    Of equal trust, what a person stated comes first.
    """
    positions: dict[object, list[int]] = {}
    for position, ref in enumerate(ranked):
        if "predicate" in rows.get(ref, ()):
            positions.setdefault(_key(rows[ref]), []).append(position)
    ordered = list(ranked)
    for taken in positions.values():
        by_trust = sorted(taken, key=lambda position: _authority(rows[ranked[position]]))
        for position, source in zip(taken, by_trust, strict=True):
            ordered[position] = ranked[source]
    return ordered


def people_first(relevance: Mapping[T, float], rows: Mapping[T, Row]) -> list[T]:
    """Keep the order, but let a person's facts precede others about the same subject.

    None passes what is more than twice as relevant.
    """
    ordered = list(relevance)
    for number, ref in enumerate(relevance):
        before = ordered[:number]
        behind = (n for n, other in enumerate(before) if _gives_way(rows[other], rows[ref]))
        first = next(behind, number)
        if all(2 * relevance[ref] >= relevance[other] for other in before[first:]):
            ordered.insert(first, ordered.pop(number))
    return ordered


def order_facts(facts: Sequence[Row]) -> list[Row]:
    """Order facts that answer no question: a person's first of each subject, then by trust."""
    rows = dict(enumerate(facts))
    ordered = people_first(dict.fromkeys(rows, 1.0), rows)
    return [rows[number] for number in order_facts_by_trust(ordered, rows)]


def order_rules_by_trust(rules: Sequence[Row]) -> list[Row]:
    """Keep the order, but let every rule that a person stated or accepted come first."""
    return sorted(rules, key=lambda rule: not is_from_person(rule))


def _authority(row: Row) -> tuple[bool, int]:
    return not is_from_person(row), -row["trust"]


def _gives_way(row: Row, other: Row) -> bool:
    """Whether a fact that no person stated is about the subject of one that a person stated."""
    are_facts = "predicate" in row and "predicate" in other
    is_others = are_facts and is_from_person(other) and not is_from_person(row)
    return is_others and _subject(row) == _subject(other)


def _key(fact: Row) -> tuple[str, str]:
    return _subject(fact), " ".join(folded(fact["predicate"]).split(_SAID)[0].split())


def _subject(fact: Row) -> str:
    return str(fact["entity_id"] or " ".join(folded(fact["subject"]).split()))
