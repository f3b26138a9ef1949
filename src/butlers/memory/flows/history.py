"""Explain where a memory comes from and what became of it; verify the event chain."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.kernel.json_values import as_json
from butlers.memory.flows.authority import STORES
from butlers.memory.flows.doubts import grounds_in
from butlers.memory.handle import Memory
from butlers.memory.model import (
    NOW,
    Direction,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
    Relation,
    Then,
)
from butlers.memory.policy.confidence import Waning
from butlers.memory.policy.inputs import checked_id, checked_ref
from butlers.memory.policy.maturity import shown_reason
from butlers.memory.settings import FactsConfig
from butlers.memory.store import episodes, events, facts, links, rules, search

SHOWN = 100
"""The maximum number of predecessors, successors and applications of an explanation."""

_CONFIRMED = (EventType.FACT_CONFIRMED, EventType.RULE_CONFIRMED)
# What is shown of a confirmation, and the column of the event that has it.
_CONFIRMATION = {"at": "created_at", "by": "actor", "request_id": "request_id"}


async def memory_history(
    memory: Memory, memory_id: str | UUID, lineage: Lineage, then: Then = NOW
) -> list[dict[str, Any]]:
    """List the events of a memory, those of its links included, oldest first."""
    wanted = checked_id("memory_id", memory_id)
    async with memory.transaction(lineage) as tx:
        rows = await events.find_history(tx, memory_id=wanted)
    return [as_json(row) for row in _recorded_by(rows, then)]


async def stored_by(memory: Memory, actor: str, since: datetime, lineage: Lineage) -> list[UUID]:
    """List the ids of what an actor has stored since a time, oldest first."""
    async with memory.transaction(lineage) as tx:
        rows = await events.find_stored_by(tx, actor=actor, since=since, limit=SHOWN)
    return [row["memory_id"] for row in rows]


async def _find(tx: Transaction, ref: MemoryRef, now: datetime) -> dict[str, Any] | None:
    rows = await STORES[ref.type].find(tx, ids=[ref.id], now=now)
    return dict(rows[0]) if rows else None


async def explain_memory(
    memory: Memory, memory_type: str, memory_id: str | UUID, lineage: Lineage, then: Then = NOW
) -> dict[str, Any] | None:
    """Explain a memory: its sources, what it replaced and what replaced it, its confirmations and
    applications, what it depends on, and when it will fade and expire; None if there is none.

    With `then`, as of that time: what was not known yet is left out.
    """
    ref, now = checked_ref("memory", memory_type, memory_id), memory.now()
    past = {}
    if then != NOW:
        past = await search.load_memories(memory.database, lineage.tenant_id, [ref], now, then)
    async with memory.transaction(lineage) as tx:
        row = await _find(tx, ref, now)
        if row is None:
            return None
        row |= past.get(ref, {})
        related = await _related(tx, ref, row, then) | await _state(memory, tx, ref, row, then)
    explained = {
        "memory_type": ref.type,
        "memory": row,
        "source_butler": row.get("source_butler", row.get("butler")),
        "reference_count": row["reference_count"],
        "effective_confidence": row.get("effective_confidence"),
    }
    return as_json(explained | _prospects(row, memory.settings.facts) | related)


async def _related(tx: Transaction, ref: MemoryRef, row: Row, then: Then) -> dict[str, Any]:
    history = _recorded_by(await events.find_history(tx, memory_id=ref.id), then)
    linked = _recorded_by(await links.find(tx, ref, Direction.BOTH), then)
    applied = _recorded_by(await rules.find_applications(tx, rule_id=ref.id, limit=SHOWN), then)
    before = await facts.find_chain(tx, id=ref.id, way=-1, limit=SHOWN)
    after = await facts.find_chain(tx, id=ref.id, way=1, limit=SHOWN)
    confirmed = [event for event in history if event["event_type"] in _CONFIRMED]
    return {
        "source_episodes": await _sources(tx, _source_ids(ref, row, history, linked)),
        "replaced": list(map(dict, before)),
        "replaced_by": _recorded_by(after, then, "replaced_at"),
        "confirmations": [{k: e[v] for k, v in _CONFIRMATION.items()} for e in confirmed],
        "applications": [_application(application) for application in applied],
        "links": linked,
    }


async def _state(
    memory: Memory, tx: Transaction, ref: MemoryRef, row: Row, then: Then
) -> dict[str, Any]:
    """Return whether a memory is current, and the state of what it depends on."""
    now = memory.now()
    if ref.type is MemoryType.EPISODE:
        outdated = await grounds_in(tx, set(row["outdated_by"] or ()), now, then)
        return {"outdated_by": list(outdated.values())}
    linked = await links.find(tx, ref, Direction.OUTGOING)
    ids = {link["target_id"] for link in linked if link["relation"] == Relation.DEPENDS_ON}
    grounds = await grounds_in(tx, ids | set(row["in_doubt"] or ()), now, then)
    is_fact, at = ref.type is MemoryType.FACT, {"now": now, **asdict(then)}
    holds = await facts.is_valid(tx, id=ref.id, **at) if is_fact else None
    return {"holds": holds, "grounds": list(grounds.values())}


def _recorded_by(rows: Sequence[Row], then: Then, when: str = "created_at") -> list[dict[str, Any]]:
    """Keep the rows that existed at `known_at`."""
    return [dict(row) for row in rows if then.known_at is None or row[when] <= then.known_at]


def _source_ids(
    ref: MemoryRef, row: Row, history: Sequence[Row], linked: Sequence[Row]
) -> list[UUID]:
    """List the ids of a memory's source episodes, deleted ones too, each once."""
    derived = (ref.type, ref.id, Relation.DERIVED_FROM, MemoryType.EPISODE)
    columns = itemgetter("source_type", "source_id", "relation", "target_type")
    recorded = (event["payload"].get("source_episode_id") for event in history)
    ids = [row.get("source_episode_id"), *(text and UUID(text) for text in recorded)]
    ids += [link["target_id"] for link in linked if columns(link) == derived]
    return list(dict.fromkeys(filter(None, ids)))


async def _sources(tx: Transaction, ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """Load source episodes; of a deleted one only the id."""
    present = {row["id"]: row for row in await episodes.find_texts(tx, ids=ids)}
    unknown = dict.fromkeys(("butler", "content", "created_at"))
    return [{"id": id, "gone": id not in present, **present.get(id, unknown)} for id in ids]


def _prospects(row: Row, settings: FactsConfig) -> dict[str, datetime | None]:
    """Forecast when a memory will fade and expire, unless it is confirmed."""
    if "expires_at" in row or row["state"] not in ("active", "fading"):
        return {"fades_at": None, "expires_at": row.get("expires_at")}
    waning = Waning.of(row)
    return {
        "fades_at": waning.falls_below_at(settings.retrieval_confidence_threshold),
        "expires_at": waning.falls_below_at(settings.expiry_confidence_threshold),
    }


def _application(row: Row) -> dict[str, Any]:
    return {**row, "reason": row["reason"] and shown_reason(row["reason"])}


MOST_FAULTS = 20
# A stretch takes about a second.
STRETCH = 10_000


async def verify_events(
    memory: Memory, lineage: Lineage, since_head: str | None = None, newest: int | None = None
) -> dict[str, Any]:
    """Verify a tenant's event chain, or its newest events, and return its head and first faults.

    With a head noted before, also whether everything up to it is still there.
    """
    async with memory.transaction(lineage) as tx:
        head = await events.get_chain_head(tx)
        last = head["number"] if head else 0
        known = await events.get_chain_number(tx, head=since_head) if since_head else None
        # A stretch at a time, so that no statement of a long chain runs out of time.
        parts: list[Row] = [
            await events.verify_chain(tx, after=after, limit=STRETCH, most=MOST_FAULTS)
            for after in range(max(0, last - newest) if newest else 0, last, STRETCH)
        ]
        added = await events.find_unchained(tx, most=MOST_FAULTS)
    if since_head and known is None:
        parts.insert(0, {"faulty": 1, "faults": [_fault("head")]})
    if added:
        faults = [_fault("added", row["event_id"], row["at"]) for row in added]
        parts.append({"faulty": added[0]["faulty"], "faults": faults})
    counts = {k: sum(part.get(k, 0) for part in parts) for k in ("events", "erased", "faulty")}
    return counts | {
        "faults": [fault for part in parts for fault in part["faults"]][:MOST_FAULTS],
        "intact": not counts["faulty"],
        "head": head["head"] if head else None,
        "since_head": None if known is None else last - known,
    }


def _fault(kind: str, event_id: UUID | None = None, at: datetime | None = None) -> dict[str, Any]:
    return {"fault": kind, "number": None, "event_id": event_id, "at": at}
