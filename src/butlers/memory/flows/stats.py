"""How much is remembered, in which state, now and over time."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.kernel.json_values import as_json
from butlers.memory.flows.browse import MAX_LIMIT
from butlers.memory.handle import Counted, Memory
from butlers.memory.model import Lineage
from butlers.memory.policy import inputs, scopes
from butlers.memory.policy.timeline import TimelineCounts, days_until, timeline
from butlers.memory.store import events, stats

_TELLING = 15
"""So many of the newest events tell whether anything has happened."""


async def memory_stats(memory: Memory, scope: str | None, lineage: Lineage) -> dict[str, Any]:
    """Counts by kind and state; a scope counts its own facts and rules and the global ones.

    `episodes.backlog_age_hours` is None when nothing waits. A forgotten rule counts as such alone.
    """
    if scope is not None:
        scope = scopes.checked("scope", scope)
    async with memory.transaction(lineage) as tx:
        counted = await stats.count(tx, scope=scope, now=memory.now())
    return {kind: counted[kind] for kind in ("episodes", "facts", "rules")}


async def memory_glance(
    memory: Memory, shown: int, lineage: Lineage
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All counts and when something was last consolidated; what happened last, newest first."""
    inputs.checked_limit(shown, MAX_LIMIT)
    async with memory.transaction(lineage) as tx:
        newest = await events.find_before(tx, event_id=None, limit=max(shown, _TELLING))
        # Counted after the events were read: if something happens in between, the next look tells.
        counted = await _counted(memory, tx, tuple(event["id"] for event in newest[:_TELLING]))
    return _overview(counted, memory.now()), [dict(event) for event in newest[:shown]]


async def _counted(memory: Memory, tx: Transaction, newest: tuple[UUID, ...]) -> Counted:
    """What was counted last, unless something has happened since: whatever changes a count is told.

    Several events are compared, because one may be told after another that it came before.
    """
    kept = memory.counts.get(tx.tenant_id)
    if kept is None or kept.events != newest:
        now = memory.now()
        kept = Counted(await stats.count(tx, scope=None, now=now), now, newest)
        memory.counts.set(tx.tenant_id, kept)
    return kept


def _overview(counted: Counted, now: datetime) -> dict[str, Any]:
    overview = as_json(counted.row)
    age = overview["episodes"]["backlog_age_hours"]
    if age is not None:
        overview["episodes"]["backlog_age_hours"] = age + (now - counted.at) / timedelta(hours=1)
    return overview


MAX_DAYS = 366


async def memory_timeline(memory: Memory, days: int, lineage: Lineage) -> TimelineCounts:
    """Counts for each of the last days, today included; by the audit stream, in UTC."""
    inputs.checked_limit(days, MAX_DAYS)
    shown = days_until(memory.now().date(), days + 1)
    async with memory.transaction(lineage) as tx:
        moves = await events.find_moves(tx, first_day=shown[0], last_day=shown[-1])
    return timeline(shown, moves)
