"""The decay sweep: memories nobody confirms fade, and are gone in the end.

Pages in id order, one transaction each: the database counts effective confidence as it does for
recall, one UPDATE per verdict moves what has to move, and each move is one event. What stands
where it belongs is not written to, so that a second sweep changes nothing.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from butlers.db.postgres import Transaction
from butlers.memory.flows.every_tenant import TenantReports, for_every_tenant
from butlers.memory.flows.feedback import invert_waiting
from butlers.memory.handle import Memory
from butlers.memory.model import EventSubject, EventType, Lineage
from butlers.memory.policy.confidence import Verdict, bands
from butlers.memory.store import sweep, transitions
from butlers.memory.store.sweep import Due, Move, NextPage, Page
from butlers.memory.store.transitions import Transition

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
class _Step:
    """What a verdict does to the memories that do not follow it yet."""

    verdict: Verdict
    move: Move
    event: EventType
    to: str


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one kind of memory is swept."""

    subject: EventSubject
    next_page: NextPage
    steps: tuple[_Step, ...]


_FACTS = _Kind(
    EventSubject.FACT,
    sweep.next_fact_page,
    (
        _Step(Verdict.SPENT, sweep.expire_facts, EventType.FACT_EXPIRED, "expired"),
        _Step(Verdict.FADING, sweep.fade_facts, EventType.FACT_FADING, "fading"),
        _Step(Verdict.SURE, sweep.recover_facts, EventType.FACT_RECOVERED, "active"),
    ),
)
# Warnings wane like every other rule: an anti-pattern nobody confirms is forgotten too.
_RULES = _Kind(
    EventSubject.RULE,
    sweep.next_rule_page,
    (
        _Step(Verdict.SPENT, sweep.forget_rules, EventType.RULE_FORGOTTEN, "forgotten"),
        _Step(Verdict.FADING, sweep.fade_rules, EventType.RULE_FADING, "fading"),
        _Step(Verdict.SURE, sweep.recover_rules, EventType.RULE_RECOVERED, "active"),
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
    counts: Counter[str] = Counter()
    page: Page | None = None
    while True:
        async with memory.transaction(lineage) as tx:
            page = await kind.next_page(tx, page, PAGE)
            if page is None:
                return counts
            moved = await _sweep_page(memory, tx, kind, page, lineage, now)
        counts.update(moved, checked=page.checked)


async def _sweep_page(
    memory: Memory, tx: Transaction, kind: _Kind, page: Page, lineage: Lineage, now: datetime
) -> Counter[str]:
    ranges = bands(memory.settings.facts)
    counts: Counter[str] = Counter()
    for step in kind.steps:
        band = ranges[step.verdict]
        moved = await step.move(tx, Due(page, band.least, band.below, now))
        payloads = {
            row["id"]: {
                "from": row["was"],
                "to": step.to,
                "effective_confidence": row["effective_confidence"],
            }
            for row in moved
        }
        told = Transition(step.event, kind.subject, payloads)
        counts[step.to] += await transitions.append(tx, memory.new_id, told, lineage, now)
    return counts
