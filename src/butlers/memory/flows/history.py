"""Explain where a memory comes from and what became of it; verify the event chain."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.kernel.json_values import as_json
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
from butlers.memory.policy.attachments import checked_ref
from butlers.memory.policy.confidence import Waning
from butlers.memory.policy.inputs import checked_id
from butlers.memory.policy.maturity import shown_reason
from butlers.memory.settings import FactsConfig
from butlers.memory.store import (
    episodes,
    events,
    facts,
    links,
    rules,
    search,
)

SHOWN = 100
"""The maximum number of predecessors, successors and applications of an explanation."""

_CONFIRMED = (EventType.FACT_CONFIRMED, EventType.RULE_CONFIRMED)
_IN_USE = ("active", "fading")


async def memory_history(
    memory: Memory, memory_id: str | UUID, lineage: Lineage, then: Then = NOW
) -> list[dict[str, Any]]:
    """List the events of a memory, those of its links included, oldest first."""
    wanted = checked_id("memory_id", memory_id)
    async with memory.transaction(lineage) as tx:
        told = await events.find_history(tx, memory_id=wanted)
    return [as_json(row) for row in _recorded_by(told, then)]


async def stored_by(
    memory: Memory, actor: str, since: datetime, lineage: Lineage, limit: int = SHOWN
) -> list[UUID]:
    """List the ids of what an actor has stored since a time, oldest first."""
    async with memory.transaction(lineage) as tx:
        rows = await events.find_stored_by(tx, actor=actor, since=since, limit=limit)
    return [row["memory_id"] for row in rows]


async def _find(tx: Transaction, ref: MemoryRef, now: datetime) -> dict[str, Any] | None:
    if ref.type is MemoryType.EPISODE:
        rows = await episodes.find(tx, ids=[ref.id], now=now)
    else:
        store = facts if ref.type is MemoryType.FACT else rules
        rows = await store.find(tx, ids=[ref.id], now=now)
    return dict(rows[0]) if rows else None


async def explain_memory(
    memory: Memory,
    memory_type: str,
    memory_id: str | UUID,
    lineage: Lineage,
    then: Then = NOW,
) -> dict[str, Any] | None:
    """Explain a memory: its sources, what it replaced and what replaced it, its confirmations and
    applications, what it depends on, and when it will fade and expire; None if there is none.

    With `then`, as of that time: what was not known yet is left out.
    """
    ref, now = checked_ref("memory", memory_type, memory_id), memory.now()
    told = then and await search.load_memories(memory.database, lineage.tenant_id, [ref], now, then)
    async with memory.transaction(lineage) as tx:
        found = await _find(tx, ref, now)
        if found is None:
            return None
        found |= told.get(ref, {}) if told else {}
        story = await _story(tx, ref, found, then) | await _add_state(memory, tx, ref, found, then)
    return as_json(
        {
            "memory_type": ref.type,
            "memory": found,
            "source_butler": found.get("source_butler", found.get("butler")),
            "reference_count": found["reference_count"],
            "effective_confidence": found.get("effective_confidence"),
            **_prospects(found, memory.settings.facts),
            **story,
        }
    )


async def _story(
    tx: Transaction, ref: MemoryRef, found: Mapping[str, Any], then: Then
) -> dict[str, Any]:
    happened = _recorded_by(await events.find_history(tx, memory_id=ref.id), then)
    linked = _recorded_by(await links.find(tx, ref, Direction.BOTH), then)
    applied = _recorded_by(await rules.find_applications(tx, rule_id=ref.id, limit=SHOWN), then)
    before = await facts.find_chain(tx, id=ref.id, way=-1, limit=SHOWN)
    after = await facts.find_chain(tx, id=ref.id, way=1, limit=SHOWN)
    return {
        "source_episodes": await _sources(tx, _source_ids(ref, found, happened, linked)),
        "replaced": _plain(before),
        "replaced_by": _plain(_recorded_by(after, then, "replaced_at")),
        "confirmations": [
            {"at": row["created_at"], "by": row["actor"], "request_id": row["request_id"]}
            for row in happened
            if row["event_type"] in _CONFIRMED
        ],
        "applications": [_application(row) for row in applied],
        "links": _plain(linked),
    }


async def _add_state(
    memory: Memory, tx: Transaction, ref: MemoryRef, found: Mapping[str, Any], then: Then
) -> dict[str, Any]:
    """Return whether a memory is current, and the state of what it depends on."""
    if ref.type is MemoryType.EPISODE:
        outdated = await grounds_in(tx, set(found["outdated_by"] or ()), memory.now(), then)
        return {"outdated_by": list(outdated.values())}
    linked = await links.find(tx, ref, Direction.OUTGOING)
    rests = {row["target_id"] for row in linked if row["relation"] == Relation.DEPENDS_ON}
    grounds = await grounds_in(tx, rests | set(found["in_doubt"] or ()), memory.now(), then)
    at = {"now": memory.now(), **asdict(then)}
    holds = await facts.is_valid(tx, id=ref.id, **at) if ref.type is MemoryType.FACT else None
    return {"holds": holds, "grounds": list(grounds.values())}


def _recorded_by(rows: Sequence[Row], then: Then, when: str = "created_at") -> Sequence[Row]:
    """Keep the rows that existed at `known_at`."""
    return [row for row in rows if then.known_at is None or row[when] <= then.known_at]


def _source_ids(
    ref: MemoryRef, found: Mapping[str, Any], happened: Sequence[Row], linked: Sequence[Row]
) -> list[UUID]:
    """List the ids of a memory's source episodes, deleted ones too."""
    told = (row["payload"].get("source_episode_id") for row in happened)
    return list(
        dict.fromkeys(
            [
                *filter(None, [found.get("source_episode_id")]),
                *(UUID(episode_id) for episode_id in told if episode_id),
                *(link["target_id"] for link in linked if _draws_on_episode(ref, link)),
            ]
        )
    )


def _draws_on_episode(ref: MemoryRef, link: Row) -> bool:
    from_here = (link["source_type"], link["source_id"]) == (ref.type, ref.id)
    derived = link["relation"] == Relation.DERIVED_FROM
    return from_here and derived and link["target_type"] == MemoryType.EPISODE


async def _sources(tx: Transaction, ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """Load source episodes; of a deleted one only the id."""
    present = {row["id"]: row for row in await episodes.find_texts(tx, ids=ids)}
    return [_source(episode_id, present.get(episode_id)) for episode_id in ids]


def _source(episode_id: UUID, row: Row | None) -> dict[str, Any]:
    known = {name: row[name] if row else None for name in ("butler", "content", "created_at")}
    return {"id": episode_id, "gone": row is None, **known}


def _prospects(found: Mapping[str, Any], settings: FactsConfig) -> dict[str, datetime | None]:
    """Forecast when a memory will fade and expire, unless it is confirmed."""
    if "expires_at" in found:
        return {"fades_at": None, "expires_at": found["expires_at"]}
    if found["state"] not in _IN_USE:
        return {"fades_at": None, "expires_at": None}
    waning = Waning.of(found)
    return {
        "fades_at": waning.falls_below_at(settings.retrieval_confidence_threshold),
        "expires_at": waning.falls_below_at(settings.expiry_confidence_threshold),
    }


def _application(row: Row) -> dict[str, Any]:
    return {**row, "reason": row["reason"] and shown_reason(row["reason"])}


def _plain(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [dict(row) for row in rows]


MOST_FAULTS = 20
# A stretch takes about a second, so that no statement of a long story runs out of time.
STRETCH = 10_000
_NOWHERE = {"number": None, "event_id": None, "at": None}


async def verify_events(
    memory: Memory, lineage: Lineage, since_head: str | None = None
) -> dict[str, Any]:
    """Verify a tenant's event chain and return its head and the first faults.

    With a head noted before, also whether everything up to it is still there.
    """
    told: dict[str, Any] = {"events": 0, "erased": 0, "faulty": 0, "faults": []}
    async with memory.transaction(lineage) as tx:
        head = await events.get_chain_head(tx)
        last = head["number"] if head else 0
        noted = await events.get_chain_number(tx, head=since_head) if since_head else None
        if since_head and noted is None:
            _add(told, 1, [{"fault": "head", **_NOWHERE}])
        await _walk(tx, last, told)
        added = await events.find_unchained(tx, most=MOST_FAULTS)
    _add(told, added[0]["faulty"] if added else 0, [_added(row) for row in added])
    told["faults"] = told["faults"][:MOST_FAULTS]
    told |= {"intact": not told["faulty"], "head": head["head"] if head else None}
    return told | {"since_head": None if noted is None else last - noted}


async def _walk(tx: Transaction, last: int, told: dict[str, Any]) -> None:
    """Verify the chain up to its last number, a stretch at a time."""
    for after in range(0, last, STRETCH):
        row = await events.verify_chain(tx, after=after, limit=STRETCH, most=MOST_FAULTS)
        told["events"] += row["events"]
        told["erased"] += row["erased"]
        _add(told, row["faulty"], row["faults"])


def _add(told: dict[str, Any], faulty: int, faults: list[dict[str, Any]]) -> None:
    told["faulty"] += faulty
    told["faults"] += faults


def _added(row: Any) -> dict[str, Any]:
    return {"fault": "added", "number": None, "event_id": row["event_id"], "at": row["at"]}
