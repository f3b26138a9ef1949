"""Decay sweep: facts and rules fade, recover or expire by their confidence, a page at a time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.db.statements import OnlyRow, Rows
from butlers.memory.flows.feedback import invert_waiting
from butlers.memory.handle import Memory
from butlers.memory.model import EventSubject, EventType, Lineage
from butlers.memory.store import events, retention
from butlers.memory.store.events import Transition

PAGE = 1_000
"""Memories per transaction: few enough that nobody waits long for one of them."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """How many memories a sweep checked, and how many it moved to each state."""

    facts_checked: int
    facts_fading: int
    facts_recovered: int
    facts_expired: int
    rules_checked: int
    rules_fading: int
    rules_recovered: int
    rules_forgotten: int
    rules_inverted: int


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one kind of memory is swept."""

    subject: EventSubject
    next_page: OnlyRow
    move: Rows
    moves: dict[str, tuple[EventType, str]]
    """The event and the new state of each verdict."""


_FACTS = _Kind(
    EventSubject.FACT,
    retention.get_next_facts,
    retention.fade_facts,
    {
        "spent": (EventType.FACT_EXPIRED, "expired"),
        "fading": (EventType.FACT_FADING, "fading"),
        "active": (EventType.FACT_RECOVERED, "active"),
    },
)
_RULES = _Kind(
    EventSubject.RULE,
    retention.get_next_rules,
    retention.fade_rules,
    {
        "spent": (EventType.RULE_FORGOTTEN, "forgotten"),
        "fading": (EventType.RULE_FADING, "fading"),
        "active": (EventType.RULE_RECOVERED, "active"),
    },
)


async def run_decay_sweep(memory: Memory, lineage: Lineage) -> SweepReport:
    """Move one tenant's facts and rules to fading, active or expired; then invert rules that wait.

    One transaction for each page. Records the event of each change.
    """
    now = memory.now()
    facts = await _sweep(memory, _FACTS, lineage, now)
    rules = await _sweep(memory, _RULES, lineage, now)
    return SweepReport(
        facts_checked=facts["checked"],
        facts_fading=facts["fading"],
        facts_recovered=facts["active"],
        facts_expired=facts["expired"],
        rules_checked=rules["checked"],
        rules_fading=rules["fading"],
        rules_recovered=rules["active"],
        rules_forgotten=rules["forgotten"],
        rules_inverted=await invert_waiting(memory, lineage),
    )


async def _sweep(memory: Memory, kind: _Kind, lineage: Lineage, now: datetime) -> Counter[str]:
    """Sweep one type; count how many were `checked`, and how many moved to each state."""
    counts, after = Counter[str](), UUID(int=0)
    thresholds = {
        "expiry_threshold": memory.settings.facts.expiry_confidence_threshold,
        "retrieval_threshold": memory.settings.facts.retrieval_confidence_threshold,
    }
    while True:
        async with memory.transaction(lineage) as tx:
            page = await kind.next_page(tx, after=after, limit=PAGE)
            if not page["checked"]:
                return counts
            moved = await kind.move(tx, after=after, last=page["last"], now=now, **thresholds)
            for verdict, (event, state) in kind.moves.items():
                told = Transition(event, _payloads(moved, verdict, state))
                counts[state] += await events.append(tx, memory.new_id, told, lineage, now)
        after = page["last"]
        counts["checked"] += page["checked"]


def _payloads(moved: Sequence[Row], verdict: str, state: str) -> dict[UUID, dict[str, Any]]:
    return {
        row["id"]: {
            "from": row["was"],
            "to": state,
            "effective_confidence": row["effective_confidence"],
        }
        for row in moved
        if row["verdict"] == verdict
    }
