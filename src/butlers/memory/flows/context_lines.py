"""Render memories as lines of a context."""

from collections.abc import Sequence

from butlers.db.postgres import Row
from butlers.memory.model import MemoryRef, MemoryType
from butlers.memory.policy import context
from butlers.memory.policy.context import ContextLine, ContextSection, Offer
from butlers.memory.policy.excerpt import ExcerptOf
from butlers.memory.policy.trust import LOW_TRUST_SHARE, low_trust_room, reservations


def fact_as_line(row: Row, order: int = context.LAST, *, before: str = "") -> ContextLine:
    """Render a fact; `before` is what another said that it replaced."""
    text = context.fact_line(
        row["subject"],
        row["predicate"],
        f"{row['content']} (before: {before})" if before else row["content"],
        row["effective_confidence"],
        origin=reservations(row),
    )
    return ContextLine(MemoryRef(MemoryType.FACT, row["id"]), text, order)


def rule_as_line(row: Row, order: int = context.LAST) -> ContextLine:
    """Render a rule with its maturity."""
    text = context.rule_line(
        row["content"], row["maturity"], row["effectiveness_score"], origin=reservations(row)
    )
    return ContextLine(MemoryRef(MemoryType.RULE, row["id"]), text, order)


def episode_as_line(
    row: Row,
    order: int = context.LAST,
    words: Sequence[str] = (),
    *,
    text: str = "",
    most: int | None = None,
) -> ContextLine:
    """Render an episode with its day, cut to what has the words; or a text in its place.

    It shows `most` characters, or as many as its order allows.
    """
    line = context.episode_line(
        text or row["content"],
        row["said_at"] or row["created_at"],
        row["author"],
        origin=reservations(row),
        cut=ExcerptOf(words, order, most),
    )
    return ContextLine(MemoryRef(MemoryType.EPISODE, row["id"]), line, order)


def low_trust_offers(
    rows: Sequence[Row], others: int, limit: int, words: Sequence[str] = ()
) -> list[Offer]:
    """Offer what has low trust in a section of its own, the last: a share of all that is told."""
    told = enumerate(rows[: low_trust_room(others, limit)])
    lines = [memory_as_line(row, context.LAST + 1 + number, words) for number, row in told]
    return [Offer(ContextSection.LOW_TRUST, 0.0, lines, LOW_TRUST_SHARE)] if lines else []


def memory_as_line(
    row: Row, order: int, words: Sequence[str] = (), *, most: int | None = None
) -> ContextLine:
    """Render a memory of any type; an episode shows `most` characters."""
    if "predicate" in row:
        return fact_as_line(row, order)
    if "maturity" in row:
        return rule_as_line(row, order)
    return episode_as_line(row, order, words, most=most)
