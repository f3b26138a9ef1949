"""Undo what a source did to entities: those it created, changed and merged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.memory.flows.entity_linking import adopt_named
from butlers.memory.flows.fact_windows import moved_window, window_of
from butlers.memory.flows.undo_plan import UndoContext
from butlers.memory.model import EventType
from butlers.memory.policy.entities import MERGED_INTO
from butlers.memory.policy.undoing import parted, unchanged
from butlers.memory.policy.validity import Window
from butlers.memory.store import entities, rows, unmerge

Pairs = Sequence[Sequence[str | None]]


async def undo_entities(
    work: UndoContext, changes: list[Row], taken: list[UUID]
) -> tuple[int, int]:
    """Undo changes, the latest first; what somebody changed or used since stays.

    Return how many changes of entities were undone, and how many stay.
    """
    undone = [(row["event_type"], await _undo_change(work, row, taken)) for row in changes]
    results = [was_undone for kind, was_undone in undone if kind != EventType.FACT_ANCHORED]
    return sum(results), len(results) - sum(results)


async def _undo_change(work: UndoContext, change: Row, taken: list[UUID]) -> bool:
    kind, id, payload = change["event_type"], change["memory_id"], change["payload"]
    if kind == EventType.FACT_ANCHORED:
        return await _unlink_fact(work, id, UUID(payload["entity_id"]), payload["pairs"])
    if kind == EventType.ENTITY_MERGE:
        return await unmerge_in(work, payload) is not None
    row = (await entities.hold(work.tx, id)).get(id)
    if row is None or row["metadata"].get(MERGED_INTO) is not None:
        return False
    if kind == EventType.ENTITY_UPDATED:
        return await _revert_update(work, row, payload, taken)
    return await _remove(work, row, taken, unlink=bool(payload.get("by_itself")))


async def _revert_update(work: UndoContext, row: Row, payload: Row, taken: list[UUID]) -> bool:
    """Revert a change of an entity, if nobody changed the same fields since."""
    before = unchanged(row, payload)
    if before is None or not await _has_free_name(work, {**row, **before}, taken):
        return False
    await entities.update(work.tx, row["id"], {**row, **before}, work.now)
    moved = {"from": {name: row[name] for name in before}, "to": before}
    await work.record_undo(EventType.ENTITY_UPDATED, row["id"], moved)
    await _adopt(work, {**row, **before})
    return True


async def _has_free_name(work: UndoContext, entity: Row, taken: list[UUID]) -> bool:
    """Whether a name is free, or becomes so by removing an entity that was created implicitly."""
    name, kind = entity["canonical_name"], entity["entity_type"]
    bearer = await entities.get_by_name(work.tx, canonical_name=name, entity_type=kind)
    if bearer is None or bearer["id"] == entity["id"]:
        return True
    if not await entities.is_unclaimed(work.tx, id=bearer["id"]):
        return False
    return await _remove(work, bearer, taken, unlink=True)


async def _remove(work: UndoContext, row: Row, taken: list[UUID], *, unlink: bool) -> bool:
    """Remove an entity, unless something else refers to it.

    `unlink` first unlinks the facts that belong to it by its name only.
    """
    if unlink:
        named = await unmerge.find_by_name(work.tx, id=row["id"], name=row["canonical_name"])
        for fact in named:
            await _unlink_fact(work, fact["id"], row["id"], [])
    if await unmerge.has_dependents(work.tx, id=row["id"], ids=taken):
        return False
    await rows.erase(work.tx, kind="entities", keys=[str(row["id"])])
    removed = {"canonical_name": row["canonical_name"], "entity_type": row["entity_type"]}
    await work.record_undo(EventType.ENTITY_REMOVED, row["id"], removed)
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
    restored, left = await _restore_superseded(work, moved["pairs"])
    own, other = parted(source, target, moved)
    await entities.update(work.tx, id, own, work.now)
    await entities.update(work.tx, target_id, other, work.now)
    sides = {name: merge[name] for name in ("source_entity_id", "target_entity_id")}
    await work.record_undo(EventType.ENTITY_PARTED, id, sides)
    await _adopt(work, own)
    return Parted(id, target_id, len(back), len(restored), left)


async def _unlink_fact(work: UndoContext, id: UUID, entity_id: UUID, pairs: Pairs) -> bool:
    """Unlink a fact from an entity, if it still has that entity and its key is free."""
    if not await unmerge.unlink_facts(work.tx, id=id, target_id=entity_id):
        return False
    await _restore_superseded(work, pairs)
    payload: dict[str, Any] = {"entity_id": None, "was_entity_id": str(entity_id), "pairs": []}
    await work.record_undo(EventType.FACT_ANCHORED, id, payload)
    return True


async def _restore_superseded(work: UndoContext, pairs: Pairs) -> tuple[list[UUID], list[UUID]]:
    """Make facts current again that a merge superseded; return which are, and which are not."""
    known = [[*pair, None, None, None][:6] for pair in pairs]
    winners, losers, befores = (_ids(pair[n] for pair in known) for n in range(3))
    froms, tos, sinces = ([_instant(pair[n]) for pair in known] for n in (3, 4, 5))
    await unmerge.split_conflicts(work.tx, befores=befores, winners=winners, losers=losers)
    await unmerge.split_links(work.tx, winners=winners, losers=losers)
    await _reopen(work, winners, sinces)
    restored = await unmerge.restore_superseded(work.tx, losers=losers, froms=froms, tos=tos)
    for row in restored:
        before = Window(row["was_valid_from"], row["was_valid_to"])
        payload = {"from": "superseded", "to": row["state"]} | moved_window(before, window_of(row))
        await work.record_undo(EventType.FACT_RESTORED, row["id"], payload)
    current = [row["id"] for row in restored]
    return current, [id for id in losers if id not in current]


async def _reopen(
    work: UndoContext, winners: Sequence[UUID], sinces: Sequence[datetime | None]
) -> None:
    """Give facts back the beginning that a merge gave another's."""
    for row in await unmerge.reopen(work.tx, winners=winners, sinces=sinces):
        moved = moved_window(window_of(row), Window(None, row["valid_to"]))
        await work.record_undo(EventType.FACT_BOUNDED, row["id"], moved)


async def _adopt(work: UndoContext, entity: Row) -> None:
    """Link facts to an entity by the names it has again."""
    await adopt_named(work, entity["id"], (entity["canonical_name"], *entity["aliases"]))


def _ids(texts: Iterable[str | None]) -> list[Any]:
    return [text and UUID(text) for text in texts]


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
