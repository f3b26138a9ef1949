"""Undo a source: everything that came through a token, a session, an episode or since a time.

What it stored and everything drawn from that is forgotten, what it superseded is current again,
and its confirmations, marks and links are removed: all in one transaction, each step an event.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict
from butlers.memory.flows.authority import must_be_a_person
from butlers.memory.flows.forget import forget_in, restore_in, revive_in
from butlers.memory.flows.links import link_event
from butlers.memory.flows.proposals import decide_in
from butlers.memory.flows.undo_entities import undo_entities
from butlers.memory.flows.undo_plan import UndoContext, UndoPlan, UndoReport, UndoSource
from butlers.memory.flows.undo_plan import plan as plan_of
from butlers.memory.handle import Embedding, Memory
from butlers.memory.model import EventType, Lineage, MemoryRef, MemoryType
from butlers.memory.policy import undoing
from butlers.memory.store import facts, links, rules, undo
from butlers.memory.store.facts import FactKey


async def preview_undo(memory: Memory, source: UndoSource, lineage: Lineage) -> UndoReport:
    """Report what an undo would do now. Nothing changes; only a person may ask."""
    must_be_a_person(lineage, "take back what came through a source")
    async with memory.transaction(lineage) as tx:
        return (await plan_of(memory, tx, source)).report(applied=False)


async def undo_source(memory: Memory, source: UndoSource, lineage: Lineage) -> UndoReport:
    """Undo everything that came through a source; running it twice changes nothing.

    Only a person may do so. Locks the keys of the facts that become current again. Each step
    records its event, marked `undo`.
    """
    must_be_a_person(lineage, "take back what came through a source")
    vectors = await _vectors(memory, source, lineage)
    async with memory.begin(lineage) as work:
        plan = await plan_of(memory, work.tx, source)
        work = UndoContext(memory, work.tx, lineage)
        ids = [row["id"] for row in (*plan.replaced, *plan.forgotten)]
        keys = await undo.find_keys(work.tx, ids=ids)
        await facts.hold_keys(work.tx, *(FactKey(**row) for row in keys))
        # Who had the locks before may have changed what there is to undo.
        plan = await plan_of(memory, work.tx, source)
        await _forget(work, plan)
        plan = replace(plan, replaced=await _revive(work, plan))
        plan = replace(plan, forgotten=await _recover(work, plan))
        await _unmark(work, plan, vectors)
        await _unconfirm(work, plan)
        for row in await undo.unlink(work.tx, ids=plan.ids, **source.values()):
            await work.record(link_event(EventType.LINK_REMOVED, row))
        for row in await undo.reopen_conflicts(work.tx, **source.values()):
            payload = {"from": row["was"], "to": "open", "kind": row["kind"]}
            payload |= {side: str(row[side]) for side in ("newer_id", "older_id")}
            await work.record_undo(EventType.CONFLICT_REOPENED, row["id"], payload)
        await undo.delete_predicate_rules(work.tx, **source.values())
        undone, left = await undo_entities(work, plan.entities, plan.ids)
        for row in plan.proposals:
            await decide_in(work, row["id"], EventType.PROPOSAL_DECLINED)
    return replace(plan.report(applied=True), entities=undone, entities_left=left)


async def _vectors(memory: Memory, source: UndoSource, lineage: Lineage) -> dict[UUID, Embedding]:
    """Embed the new text of each warning that changes or becomes a rule again."""
    async with memory.transaction(lineage) as tx:
        plan = await plan_of(memory, tx, source)
        words: dict[UUID, str] = {}
        for rule_id, undone in _by(plan.marks, "rule_id").items():
            rule, columns = await _remarked(memory, tx, rule_id, undone)
            content = undoing.words_of(rule, columns)
            words |= {rule_id: content} if content else {}
    made = await memory.embed(list(words.values()), lineage)
    return dict(zip(words, made, strict=True))


async def _forget(work: UndoContext, plan: UndoPlan) -> None:
    for row in plan.copies.present:
        forgotten = await forget_in(work.tx, _ref(row), work.now)
        if forgotten is not None:
            await work.record_undo(forgotten.type, row["id"], forgotten.payload)


async def _revive(work: UndoContext, plan: UndoPlan) -> list[Row]:
    """Make superseded facts current again, only the latest of each key; return those."""
    revived = [row for row in plan.replaced if await work.revive(row)]
    # What superseded an undone fact now supersedes what that fact had superseded.
    moved = await undo.reconnect(work.tx, ids=plan.ids)
    pairs = [(row["id"], row["supersedes_id"]) for row in moved if row["supersedes_id"]]
    winners, losers = [winner for winner, _ in pairs], [loser for _, loser in pairs]
    await links.supersede(work.tx, winners=winners, losers=losers, now=work.now)
    return revived


async def _recover(work: UndoContext, plan: UndoPlan) -> list[Row]:
    """Restore what the source had forgotten, unless another fact has its key; return those."""
    recovered = []
    for row in plan.forgotten:
        try:
            if (ref := _ref(row)).type is MemoryType.EPISODE:
                event = await revive_in(work, ref.id)
            else:
                event = await restore_in(work.tx, ref, work.now)
        except Conflict:
            continue
        if event is not None:
            await work.record_undo(event.type, ref.id, event.payload)
            recovered.append(row)
    return recovered


async def _unconfirm(work: UndoContext, plan: UndoPlan) -> None:
    """Confirm memories as of their last remaining confirmation."""
    threshold = work.settings.facts.retrieval_confidence_threshold
    undone = {row["id"] for row in plan.confirmations}
    for memory_id, rows in _by(plan.confirmations, "memory_id").items():
        story = await undo.find_history(work.tx, id=memory_id)
        gone = [str(event["id"]) for event in story if event["id"] in undone]
        if not gone:
            continue
        sure = undoing.unconfirmed(story, undone)
        at = sure.confirmed_at
        known = {"id": memory_id, "now": work.now, "threshold": threshold, "confirmed_at": at}
        known["revoked"] = sure.revoked
        if rows[0]["kind"] == MemoryType.FACT:
            row = await undo.unconfirm_fact(work.tx, confidence=sure.confidence, **known)
        else:
            row = await undo.unconfirm_rule(work.tx, **known)
        kind = rows[0]["kind"]
        payload = {"last_confirmed_at": at and at.isoformat(), "confirmations": gone}
        await work.record_undo(EventType(f"{kind}_unconfirmed"), memory_id, payload)
        if row is not None and (row["was"], row["state"]) == ("active", "fading"):
            payload = {"from": "active", "to": "fading"}
            payload["effective_confidence"] = row["effective_confidence"]
            await work.record_undo(EventType(f"{kind}_fading"), memory_id, payload)


async def _unmark(work: UndoContext, plan: UndoPlan, vectors: dict[UUID, Embedding]) -> None:
    for rule_id, undone in _by(plan.marks, "rule_id").items():
        rule, columns = await _remarked(work.memory, work.tx, rule_id, undone)
        content = undoing.words_of(rule, columns)
        if content is not None:
            await _reword(work, content, vectors.get(rule_id), {"id": rule_id, **columns})
        confirmed_at = rule["last_confirmed_at"]
        await rules.mark(work.tx, id=rule_id, confirmed_at=confirmed_at, **columns)
        payload = {"from": rule["maturity"], "to": columns["maturity"]}
        payload |= {"applications": [str(row["id"]) for row in undone]}
        await work.record_undo(EventType.RULE_UNMARKED, rule_id, payload)


async def _reword(
    work: UndoContext, content: str, made: Embedding | None, columns: dict[str, Any]
) -> None:
    if made is None:
        raise Conflict(f"rule {columns['id']} changed meanwhile; nothing was undone, try again")
    kept = {name: columns[name] for name in ("id", "maturity", "metadata", "last_at")}
    await rules.reword(work.tx, content=content, **made.columns(content), **kept)


async def _remarked(
    memory: Memory, tx: Transaction, rule_id: UUID, undone: Sequence[Row]
) -> tuple[Row, dict[str, Any]]:
    """Lock a rule; return it, and its columns without some of its marks."""
    rule = await rules.lock(tx, id=rule_id, now=memory.now())
    assert rule is not None, "a mark is of a rule that exists"
    gone = {row["id"] for row in undone}
    marks = await rules.find_counted_applications(tx, rule_id=rule_id)
    kept = [row for row in marks if row["id"] not in gone]
    return rule, undoing.unmarked(rule, kept, memory.settings.rules)


def _by(rows: Sequence[Row], name: str) -> dict[UUID, list[Row]]:
    grouped: dict[UUID, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row[name], []).append(row)
    return grouped


def _ref(row: Row) -> MemoryRef:
    return MemoryRef(MemoryType(row["kind"]), row["id"])
