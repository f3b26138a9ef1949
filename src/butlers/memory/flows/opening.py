"""Build what a session starts with: where work stopped, what is decided, rules, what changed."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from operator import itemgetter

from rapidfuzz import fuzz

from butlers.db.postgres import Row, Transaction
from butlers.memory import limits
from butlers.memory.flows.context_lines import (
    episode_as_line,
    fact_as_line,
    low_trust_offers,
    rule_as_line,
)
from butlers.memory.handle import Memory
from butlers.memory.model import NOW, Then
from butlers.memory.policy import scopes
from butlers.memory.policy.context import ContextLine, ContextSection, Offer
from butlers.memory.policy.left_off import lines_left_off
from butlers.memory.policy.trust import apart, order_facts, order_rules_by_trust
from butlers.memory.store import decisions, episodes, facts, rules

MAX_STANDING = 50
_SAME = 90
"""Two texts of which one says so many percent of the other are told once."""
_READ_PIECES, _MOST_DECISIONS, _MOST_FACTS, _MOST_CHANGES = 60, 8, 20, 5
# The share of the budget that each section has at least.
_SHARES = {
    ContextSection.LEFT_OFF: 0.3,
    ContextSection.DECISIONS: 0.3,
    ContextSection.RULES: 0.2,
    ContextSection.CHANGED: 0.1,
}


async def opening_offers(
    tx: Transaction, memory: Memory, scope: str | None, then: Then
) -> list[Offer]:
    """Offer the lines that a session starts with; nothing was asked yet.

    A project's sessions and decisions are those of the project alone. Without pieces of sessions
    the latest episodes are offered. Of a past time only episodes are.
    """
    now, least = memory.now(), memory.settings.facts.retrieval_confidence_threshold
    times = {"now": now, "scope": scope}
    if then != NOW:
        recent = await _recent_lines(tx, memory, scope, then)
        return [Offer(ContextSection.EPISODES, 1.0, recent)]
    share, own = memory.settings.context.episodes_share, _project_scope(scope)
    most_pieces, most_decisions = (_READ_PIECES, _MOST_DECISIONS) if share else (0, 0)
    pieces = await episodes.find_latest_pieces(tx, now=now, scope=own, limit=most_pieces)
    decided = await decisions.find_present(tx, now=now, scope=own, limit=most_decisions)
    left_off = list(_left_off(pieces)) or await _recent_lines(tx, memory, scope, then)
    changed = await _find_changed(tx, times, pieces)
    known = {row["id"] for row in changed}
    found = await facts.find_important(tx, **times, least=least, limit=_MOST_FACTS)
    important, low = apart(found, itemgetter("trust"))
    found = await rules.find_current(tx, **times, least=least, limit=MAX_STANDING)
    standing, low_rules = apart(found, itemgetter("trust"))
    decided, _ = apart(decided, itemgetter("trust"))
    rest = _without_known([row["content"] for row in standing], decided)
    lines = {
        ContextSection.LEFT_OFF: left_off,
        ContextSection.DECISIONS: [episode_as_line(row) for row in rest],
        ContextSection.FACTS: [
            fact_as_line(row) for row in order_facts(important) if row["id"] not in known
        ],
        ContextSection.RULES: [rule_as_line(row) for row in order_rules_by_trust(standing)],
        ContextSection.CHANGED: [fact_as_line(row, before=row["was"]) for row in changed],
    }
    others = sum(map(len, lines.values()))
    offers = [Offer(section, _SHARES.get(section, 0.0), some) for section, some in lines.items()]
    return [*offers, *low_trust_offers([*low_rules, *low], others, others + _MOST_FACTS)]


async def _recent_lines(
    tx: Transaction, memory: Memory, scope: str | None, then: Then
) -> list[ContextLine]:
    """Render the latest episodes; none where settings leave episodes out."""
    limit = limits.MAX_CONTEXT_EPISODES if memory.settings.context.episodes_share else 0
    recent = await episodes.find_recent(
        tx, now=memory.now(), scope=scope, **asdict(then), limit=limit
    )
    return [episode_as_line(row) for row in recent]


def _project_scope(scope: str | None) -> str | None:
    """Keep the projects of a scope filter, if it names any."""
    named = scopes.several(scope) if scope else []
    return scopes.joined(filter(scopes.is_project, named)) or scope


async def _find_changed(
    tx: Transaction, times: dict[str, datetime | str | None], pieces: Sequence[Row]
) -> list[Row]:
    """Find the facts that changed since the latest session; none without one."""
    if not pieces:
        return []
    since = pieces[0]["created_at"]
    return await facts.find_changed(tx, **times, since=since, limit=_MOST_CHANGES)


def _without_known(texts: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """Leave out the rows that say what one of the texts says."""
    return [
        row
        for row in rows
        if not any(fuzz.partial_ratio(row["content"], text) >= _SAME for text in texts)
    ]


def _left_off(pieces: Sequence[Row]) -> Iterator[ContextLine]:
    for number, line in enumerate(lines_left_off(pieces)):
        yield episode_as_line(line.row, number, text=line.text)
