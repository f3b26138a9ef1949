"""Taking back what a source did to entities: whom it created, changed and merged."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.memory.flows.undo_plan import Work
from butlers.memory.model import Event, EventSubject, EventType
from butlers.memory.policy.entities import MERGED_INTO
from butlers.memory.policy.undoing import parted, unchanged
from butlers.memory.store import entities, rows, undo


@dataclass(slots=True)
class Entities:
    """How many changes of entities were taken back, and how many stay."""

    undone: int = 0
    left: int = 0


async def undo_entities(work: Work, changes: list[Row], taken: list[UUID]) -> Entities:
    """Take changes back, the latest first; what somebody changed since, or hangs on, stays."""
    came = Entities()
    for change in changes:
        if await _undone(work, change, taken):
            came.undone += 1
        else:
            came.left += 1
    return came


async def _undone(work: Work, change: Row, taken: list[UUID]) -> bool:
    row = (await entities.hold(work.tx, change["memory_id"])).get(change["memory_id"])
    if row is None or row["metadata"].get(MERGED_INTO) is not None:
        return False
    if change["event_type"] == EventType.ENTITY_UPDATED:
        return await _changed_back(work, row, change)
    if change["event_type"] == EventType.ENTITY_MERGE:
        return await _parted(work, row, change["payload"])
    return await _removed(work, row, taken)


async def _changed_back(work: Work, row: Row, change: Row) -> bool:
    """Give an entity what it had before, where it still is what the change made it."""
    before = unchanged(row, change["payload"])
    if before is None or await _is_taken(work.tx, row, before):
        return False
    await entities.update(work.tx, row["id"], {**row, **before}, work.now)
    told = {"from": {name: row[name] for name in before}, "to": before}
    await _record(work, EventType.ENTITY_UPDATED, row["id"], told)
    return True


async def _is_taken(tx: Transaction, row: Row, before: Row) -> bool:
    name = before.get("canonical_name", row["canonical_name"])
    if name == row["canonical_name"]:
        return False
    kind = row["entity_type"]
    return await entities.get_by_name(tx, canonical_name=name, entity_type=kind) is not None


async def _removed(work: Work, row: Row, taken: list[UUID]) -> bool:
    """Remove an entity about which nobody else has said anything."""
    if await undo.hangs_on(work.tx, id=row["id"], ids=taken):
        return False
    await rows.erase(work.tx, kind="entities", keys=[str(row["id"])])
    told = {"canonical_name": row["canonical_name"], "entity_type": row["entity_type"]}
    await _record(work, EventType.ENTITY_REMOVED, row["id"], told)
    return True


async def _parted(work: Work, target: Row, merge: Row) -> bool:
    """Part two entities that were merged, each with the facts and names it had."""
    moved, id = merge.get("moved"), UUID(merge["source_entity_id"])
    source = (await entities.hold(work.tx, id)).get(id)
    if not moved or source is None or source["metadata"].get(MERGED_INTO) != str(target["id"]):
        return False
    ids = {"source_id": id, "target_id": target["id"]}
    await undo.part_facts(work.tx, ids=list(map(UUID, moved["facts"])), **ids)
    await _hold_apart(work, moved["pairs"])
    own, other = parted(source, target, moved)
    await entities.update(work.tx, id, own, work.now)
    await entities.update(work.tx, target["id"], other, work.now)
    told = {name: merge[name] for name in ("source_entity_id", "target_entity_id")}
    await _record(work, EventType.ENTITY_PARTED, id, told)
    return True


async def _hold_apart(work: Work, pairs: list[list[str | None]]) -> None:
    """Facts that gave way because two entities were one hold again, each of its own."""
    columns = [[one and UUID(one) for one in column] for column in zip(*pairs, strict=True)]
    winners, losers, befores = columns or ([], [], [])
    lost = await undo.part_pairs(work.tx, winners=winners, losers=losers, befores=befores)
    await undo.part_links(work.tx, winners=winners, losers=losers)
    for row in lost:
        await work.revive(row, "active")


async def _record(work: Work, kind: EventType, id: UUID, payload: dict[str, Any]) -> None:
    event = Event(kind, EventSubject.ENTITY, id, {**payload, "undo": True})
    await work.memory.record(work.tx, event, work.lineage, work.now)
