"""Undo what a source did to entities: those it created, changed and merged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.memory.flows.entity_linking import adopt_named
from butlers.memory.flows.undo_plan import UndoContext
from butlers.memory.model import Event, EventType, MemoryRef, MemoryType
from butlers.memory.policy.entities import MERGED_INTO
from butlers.memory.policy.undoing import parted, unchanged
from butlers.memory.store import entities, rows, unmerge

Pairs = Sequence[Sequence[str | None]]


@dataclass(slots=True)
class UndoneEntities:
    """How many changes of entities were undone, and how many stay."""

    undone: int = 0
    left: int = 0


async def undo_entities(work: UndoContext, changes: list[Row], taken: list[UUID]) -> UndoneEntities:
    """Undo changes, the latest first; what somebody changed or used since stays."""
    came = UndoneEntities()
    for change in changes:
        undone = await _undone(work, change, taken)
        if change["event_type"] != EventType.FACT_ANCHORED:
            came.undone += undone
            came.left += not undone
    return came


async def _undone(work: UndoContext, change: Row, taken: list[UUID]) -> bool:
    if change["event_type"] == EventType.FACT_ANCHORED:
        payload = change["payload"]
        entity_id = UUID(payload["entity_id"])
        return await _unanchored(work, change["memory_id"], entity_id, payload["pairs"])
    if change["event_type"] == EventType.ENTITY_MERGE:
        return await unmerge_in(work, change["payload"]) is not None
    row = (await entities.hold(work.tx, change["memory_id"])).get(change["memory_id"])
    if row is None or row["metadata"].get(MERGED_INTO) is not None:
        return False
    if change["event_type"] == EventType.ENTITY_UPDATED:
        return await _changed_back(work, row, change, taken)
    if change["payload"].get("by_itself"):
        await _let_go(work, row)
    return await _removed(work, row, taken)


async def _changed_back(work: UndoContext, row: Row, change: Row, taken: list[UUID]) -> bool:
    """Revert a change of an entity, if nobody changed the same fields since."""
    before = unchanged(row, change["payload"])
    if before is None or not await _has_room(work, {**row, **before}, taken):
        return False
    await entities.update(work.tx, row["id"], {**row, **before}, work.now)
    told = {"from": {name: row[name] for name in before}, "to": before}
    await _record(work, EventType.ENTITY_UPDATED, row["id"], told)
    await _adopt(work, {**row, **before})
    return True


async def _has_room(work: UndoContext, entity: Row, taken: list[UUID]) -> bool:
    """Whether a name is free, or becomes so by removing an entity that was created implicitly."""
    name, kind = entity["canonical_name"], entity["entity_type"]
    bearer = await entities.get_by_name(work.tx, canonical_name=name, entity_type=kind)
    if bearer is None or bearer["id"] == entity["id"]:
        return True
    if not await entities.is_unclaimed(work.tx, id=bearer["id"]):
        return False
    await _let_go(work, bearer)
    return await _removed(work, bearer, taken)


async def _let_go(work: UndoContext, row: Row) -> None:
    """Unlink the facts that belong to an entity by its name only."""
    named = await unmerge.find_by_name(work.tx, id=row["id"], name=row["canonical_name"])
    for fact in named:
        await _unanchored(work, fact["id"], row["id"], [])


async def _removed(work: UndoContext, row: Row, taken: list[UUID]) -> bool:
    """Remove an entity, unless something else refers to it."""
    if await unmerge.has_dependents(work.tx, id=row["id"], ids=taken):
        return False
    await rows.erase(work.tx, kind="entities", keys=[str(row["id"])])
    told = {"canonical_name": row["canonical_name"], "entity_type": row["entity_type"]}
    await _record(work, EventType.ENTITY_REMOVED, row["id"], told)
    return True


@dataclass(frozen=True, slots=True)
class Parted:
    """What undoing a merge did.

    `facts_left` stay superseded, because another fact has their key now.
    """

    source_entity_id: UUID
    target_entity_id: UUID
    facts_returned: int
    facts_restored: int
    facts_left: list[UUID]


async def unmerge_in(work: UndoContext, merge: Row) -> Parted | None:
    """Undo a merge: give both entities the facts and names they had; None if it is impossible.

    What was stored about the target since stays with it. Records `entity_parted`.
    """
    moved = merge.get("moved")
    id, target_id = UUID(merge["source_entity_id"]), UUID(merge["target_entity_id"])
    held = await entities.hold(work.tx, id, target_id)
    source, target = held.get(id), held.get(target_id)
    if not moved or source is None or source["metadata"].get(MERGED_INTO) != str(target_id):
        return None
    if target is None or target["metadata"].get(MERGED_INTO) is not None:
        return None
    back = await unmerge.split_facts(
        work.tx, ids=_ids(moved["facts"]), source_id=id, target_id=target_id
    )
    restored, left = await _hold_apart(work, moved["pairs"])
    own, other = parted(source, target, moved)
    await entities.update(work.tx, id, own, work.now)
    await entities.update(work.tx, target_id, other, work.now)
    told = {name: merge[name] for name in ("source_entity_id", "target_entity_id")}
    await _record(work, EventType.ENTITY_PARTED, id, told)
    await _adopt(work, own)
    return Parted(id, target_id, len(back), len(restored), left)


async def _unanchored(work: UndoContext, id: UUID, target_id: UUID, pairs: Pairs) -> bool:
    """Unlink a fact from an entity, if it still has that entity and its key is free."""
    if not await unmerge.unlink_facts(work.tx, id=id, target_id=target_id):
        return False
    await _hold_apart(work, pairs)
    told: dict[str, Any] = {"entity_id": None, "was_entity_id": str(target_id), "pairs": []}
    await work.record_undo(EventType.FACT_ANCHORED, MemoryRef(MemoryType.FACT, id), told)
    return True


async def _hold_apart(work: UndoContext, pairs: Pairs) -> tuple[list[UUID], list[UUID]]:
    """Make facts current again that a merge superseded; return which are, and which are not."""
    known = [[*pair, None, None, None][:6] for pair in pairs]
    winners, losers, befores = (_ids(pair[place] for pair in known) for place in range(3))
    froms, tos, sinces = ([_instant(pair[place]) for pair in known] for place in (3, 4, 5))
    both = {"winners": winners, "losers": losers}
    await unmerge.split_conflicts(work.tx, befores=befores, **both)
    await unmerge.split_links(work.tx, **both)
    await unmerge.reopen(work.tx, winners=winners, sinces=sinces)
    rows = await unmerge.restore_superseded(work.tx, losers=losers, froms=froms, tos=tos)
    for row in rows:
        ref = MemoryRef(MemoryType.FACT, row["id"])
        window = {"from": _window(row, "was_"), "to": _window(row)}
        told = {"from": "superseded", "to": row["state"], "window": window}
        await work.record_undo(EventType.FACT_RESTORED, ref, told)
    restored = [row["id"] for row in rows]
    return restored, [id for id in losers if id not in restored]


async def _adopt(work: UndoContext, entity: Row) -> None:
    """Link facts to an entity by the names it has again."""
    names = (entity["canonical_name"], *entity["aliases"])
    await adopt_named(work, entity["id"], names)


def _ids(told: Iterable[str | None]) -> list[Any]:
    return [one and UUID(one) for one in told]


def _instant(told: str | None) -> datetime | None:
    return datetime.fromisoformat(told) if told else None


def _window(row: Row, prefix: str = "") -> list[str | None]:
    ends = (row[f"{prefix}valid_from"], row[f"{prefix}valid_to"])
    return [at and at.isoformat() for at in ends]


async def _record(work: UndoContext, kind: EventType, id: UUID, payload: dict[str, Any]) -> None:
    event = Event(kind, id, {**payload, "undo": True})
    await work.record(event)
