"""Decay sweep: facts and rules fade, recover or expire by their confidence, a page at a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.db.statements import OnlyRow, Rows
from butlers.memory.flows.feedback import invert_waiting
from butlers.memory.handle import Memory
from butlers.memory.model import EventType, Lineage
from butlers.memory.store import retention
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

    name: str
    next_page: OnlyRow
    move: Rows
    spent: str
    """The event and state of what has no confidence left."""


_FACTS = _Kind("fact", retention.get_next_facts, retention.fade_facts, "expired")
_RULES = _Kind("rule", retention.get_next_rules, retention.fade_rules, "forgotten")


async def run_decay_sweep(memory: Memory, lineage: Lineage) -> SweepReport:
    """Move one tenant's facts and rules to fading, active or expired; then invert rules that wait.

    One transaction for each page. Records the event of each change.
    """
    now = memory.now()
    facts = await _sweep(memory, _FACTS, lineage, now)
    rules = await _sweep(memory, _RULES, lineage, now)
    return SweepReport(**facts, **rules, rules_inverted=await invert_waiting(memory, lineage))


async def _sweep(memory: Memory, kind: _Kind, lineage: Lineage, now: datetime) -> dict[str, int]:
    """Sweep one kind; count how many were checked, and how many had each event."""
    words = {"spent": kind.spent, "fading": "fading", "active": "recovered"}
    counts, after = dict.fromkeys(("checked", *words.values()), 0), UUID(int=0)
    thresholds = {
        "expiry_threshold": memory.settings.facts.expiry_confidence_threshold,
        "retrieval_threshold": memory.settings.facts.retrieval_confidence_threshold,
    }
    while True:
        async with memory.begin(lineage) as work:
            page = await kind.next_page(work.tx, after=after, limit=PAGE)
            if not page["checked"]:
                return {f"{kind.name}s_{word}": count for word, count in counts.items()}
            rows = await kind.move(work.tx, after=after, last=page["last"], now=now, **thresholds)
            for verdict, word in words.items():
                moved = (row for row in rows if row["verdict"] == verdict)
                payloads = {row["id"]: _payload(row, kind) for row in moved}
                event = EventType(f"{kind.name}_{word}")
                counts[word] += await work.record(Transition(event, payloads), now)
        after = page["last"]
        counts["checked"] += page["checked"]


def _payload(row: Row, kind: _Kind) -> dict[str, Any]:
    state = kind.spent if row["verdict"] == "spent" else row["verdict"]
    return {"from": row["was"], "to": state, "effective_confidence": row["effective_confidence"]}
