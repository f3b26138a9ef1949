"""Render memories as lines of a context."""

from collections.abc import Sequence

from butlers.db.postgres import Row
from butlers.memory.model import MemoryRef, MemoryType
from butlers.memory.policy import context
from butlers.memory.policy.context import ContextLine
from butlers.memory.policy.excerpt import ExcerptOf
from butlers.memory.policy.trust import reservations


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
