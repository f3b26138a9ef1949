"""The decay sweep: memories nobody confirms fade, and are gone in the end.

Pages in id order, one transaction each: the database counts effective confidence as it does for
recall, one UPDATE moves what has to move, and each move is one event. What stands where it belongs
is not written to, so that a second sweep changes nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.statements import OnlyRow, Rows
from butlers.memory.flows.every_tenant import TenantReports, for_every_tenant
from butlers.memory.flows.feedback import invert_waiting
from butlers.memory.handle import Memory
from butlers.memory.model import EventSubject, EventType, Lineage
from butlers.memory.store import events, sweep
from butlers.memory.store.events import Transition

PAGE = 1_000
"""Memories per transaction: few enough that nobody waits long for one of them."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """How many memories a sweep looked at, and what became of them."""

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
class _Move:
    """What a verdict makes of the memories that do not follow it yet."""

    verdict: str
    event: EventType
    to: str


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one kind of memory is swept."""

    subject: EventSubject
    next_page: OnlyRow
    move: Rows
    moves: tuple[_Move, ...]


_FACTS = _Kind(
    EventSubject.FACT,
    sweep.next_facts,
    sweep.move_facts,
    (
        _Move("spent", EventType.FACT_EXPIRED, "expired"),
        _Move("fading", EventType.FACT_FADING, "fading"),
        _Move("active", EventType.FACT_RECOVERED, "active"),
    ),
)
# Warnings wane like every other rule: an anti-pattern nobody confirms is forgotten too.
_RULES = _Kind(
    EventSubject.RULE,
    sweep.next_rules,
    sweep.move_rules,
    (
        _Move("spent", EventType.RULE_FORGOTTEN, "forgotten"),
        _Move("fading", EventType.RULE_FADING, "fading"),
        _Move("active", EventType.RULE_RECOVERED, "active"),
    ),
)


async def run_decay_sweep(memory: Memory, lineage: Lineage) -> SweepReport:
    """Let one tenant's facts and rules fade, recover and go; then do the inversions that wait."""
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


async def sweep_all(memory: Memory, actor: str) -> TenantReports[SweepReport]:
    """Sweep every tenant; one that cannot be swept does not keep the others from it."""
    return await for_every_tenant(memory, actor, run_decay_sweep)


async def _sweep(memory: Memory, kind: _Kind, lineage: Lineage, now: datetime) -> Counter[str]:
    """Sweep one kind of memory; how many were `checked`, and how many came to each state."""
    counts, after = Counter[str](), UUID(int=0)
    while True:
        async with memory.transaction(lineage) as tx:
            page = await kind.next_page(tx, after=after, limit=PAGE)
            if not page["checked"]:
                return counts
            moved = await _move(memory, tx, kind, (after, page["last"]), now)
            for move in kind.moves:
                told = _told(kind, move, moved)
                counts[move.to] += await events.append_all(tx, memory.new_id, told, lineage, now)
        after = page["last"]
        counts["checked"] += page["checked"]


async def _move(
    memory: Memory, tx: Transaction, kind: _Kind, page: tuple[UUID, UUID], now: datetime
) -> list[Row]:
    settings = memory.settings.facts
    return await kind.move(
        tx,
        after=page[0],
        last=page[1],
        expiry_threshold=settings.expiry_confidence_threshold,
        retrieval_threshold=settings.retrieval_confidence_threshold,
        now=now,
    )


def _told(kind: _Kind, move: _Move, moved: Sequence[Row]) -> Transition:
    payloads = {
        row["id"]: {
            "from": row["was"],
            "to": move.to,
            "effective_confidence": row["effective_confidence"],
        }
        for row in moved
        if row["verdict"] == move.verdict
    }
    return Transition(move.event, kind.subject, payloads)
