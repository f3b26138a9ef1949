"""Undo a source: everything that came through a token, a session, an episode or since a time.

What it stored and everything drawn from that is forgotten, what it superseded is current again,
and its confirmations, marks and links are removed: all in one transaction, each step an event.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict
from butlers.kernel.text import preprocess_text
from butlers.kernel.words import prepared
from butlers.memory.flows.authority import must_be_a_person
from butlers.memory.flows.forget import forget_in, restore_in
from butlers.memory.flows.proposals import decide_in
from butlers.memory.flows.undo_entities import undo_entities
from butlers.memory.flows.undo_plan import GONE, UndoContext, UndoPlan, UndoReport, UndoSource
from butlers.memory.flows.undo_plan import plan as plan_of
from butlers.memory.handle import Embedding, Memory
from butlers.memory.model import (
    Event,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
)
from butlers.memory.policy import undoing
from butlers.memory.store import episodes, facts, links, rules, undo
from butlers.memory.store.facts import FactKey

_UNCONFIRMED = {
    MemoryType.FACT: EventType.FACT_UNCONFIRMED,
    MemoryType.RULE: EventType.RULE_UNCONFIRMED,
}


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
        await _hold_keys(work.tx, plan)
        # Whoever held them before may have changed what there is to take back.
        plan = await plan_of(memory, work.tx, source)
        await _forget(work, plan)
        plan = replace(plan, replaced=await _revive(work, plan))
        plan = replace(plan, forgotten=await _recover(work, plan))
        await _unmark(work, plan, vectors)
        await _unconfirm(work, plan)
        await _unlink(work, plan)
        await undo.reopen_conflicts(work.tx, **source.values())
        await undo.delete_predicate_rules(work.tx, **source.values())
        came = await undo_entities(work, plan.entities, plan.ids)
        for row in plan.proposals:
            await decide_in(work, row["id"], EventType.PROPOSAL_DECLINED)
    return replace(plan.report(applied=True), entities=came.undone, entities_left=came.left)


async def _vectors(memory: Memory, source: UndoSource, lineage: Lineage) -> dict[UUID, Embedding]:
    """Embed the new text of each warning that changes or becomes a rule again."""
    async with memory.transaction(lineage) as tx:
        plan = await plan_of(memory, tx, source)
        words: dict[UUID, str] = {}
        for rule_id, undone in _by(plan.marks, "rule_id").items():
            rule, columns = await _remarked(memory, tx, rule_id, undone)
            said = undoing.words_of(rule, columns)
            words |= {rule_id: said} if said else {}
    made = await memory.embed_all(list(words.values()), lineage)
    return dict(zip(words, made, strict=True))


async def _hold_keys(tx: Transaction, plan: UndoPlan) -> None:
    """Lock the keys before the rows, in the order that storing does."""
    ids = [row["id"] for row in (*plan.replaced, *plan.forgotten)]
    keys = await undo.find_keys(tx, ids=ids)
    await facts.hold_keys(tx, *(FactKey(**row) for row in keys))


async def _forget(work: UndoContext, plan: UndoPlan) -> None:
    for row in plan.taken:
        if row["state"] in GONE:
            continue
        forgotten = await forget_in(work.tx, _ref(row), work.now)
        if forgotten is not None:
            await work.record_undo(forgotten.type, _ref(row), forgotten.payload)


async def _revive(work: UndoContext, plan: UndoPlan) -> list[Row]:
    """Make superseded facts current again, only the latest of each key; return those."""
    revived = []
    for row in plan.replaced:
        if await work.revive(row, row["was"]):
            revived.append(row)
    await _reconnect(work, plan)
    return revived


async def _reconnect(work: UndoContext, plan: UndoPlan) -> None:
    """Link what superseded an undone fact to what that fact had superseded."""
    moved = await undo.reconnect(work.tx, ids=plan.ids)
    pairs = [(row["id"], row["supersedes_id"]) for row in moved if row["supersedes_id"]]
    winners, losers = [one for one, _ in pairs], [other for _, other in pairs]
    await links.supersede(work.tx, winners=winners, losers=losers, now=work.now)


async def _recover(work: UndoContext, plan: UndoPlan) -> list[Row]:
    """Restore what the source had forgotten, unless another fact has its key; return those."""
    recovered = []
    for row in plan.forgotten:
        try:
            event = await _recovered(work, _ref(row))
        except Conflict:
            continue
        if event is not None:
            await work.record_undo(event.type, _ref(row), event.payload)
            recovered.append(row)
    return recovered


async def _recovered(work: UndoContext, ref: MemoryRef) -> Event | None:
    if ref.type is not MemoryType.EPISODE:
        return await restore_in(work.tx, ref, work.now)
    until = work.now + timedelta(days=work.settings.episodes.default_ttl_days)
    state = await episodes.revive(work.tx, id=ref.id, expires_at=until, now=work.now)
    payload = {"from": state, "to": state, "expires_at": until.isoformat()}
    return None if state is None else Event(EventType.EPISODE_RESTORED, ref.id, payload)


async def _unconfirm(work: UndoContext, plan: UndoPlan) -> None:
    undone = {row["id"] for row in plan.confirmations}
    for memory_id, rows in _by(plan.confirmations, "memory_id").items():
        story = await undo.find_history(work.tx, id=memory_id)
        gone = [event["id"] for event in story if event["id"] in undone]
        if not gone:
            continue
        ref = MemoryRef(MemoryType(rows[0]["kind"]), memory_id)
        sure = undoing.unconfirmed(story, undone)
        await _less_sure(work, ref, sure)
        at = sure.confirmed_at
        payload = {
            "last_confirmed_at": at and at.isoformat(),
            "confirmations": list(map(str, gone)),
        }
        await work.record_undo(_UNCONFIRMED[ref.type], ref, payload)


async def _less_sure(work: UndoContext, ref: MemoryRef, sure: undoing.Sureness) -> None:
    threshold = work.settings.facts.retrieval_confidence_threshold
    known = {"id": ref.id, "now": work.now, "threshold": threshold}
    known["confirmed_at"] = sure.confirmed_at
    if ref.type is MemoryType.FACT:
        await undo.unconfirm_fact(work.tx, confidence=sure.confidence, **known)
    else:
        await undo.unconfirm_rule(work.tx, **known)


async def _unmark(work: UndoContext, plan: UndoPlan, vectors: dict[UUID, Embedding]) -> None:
    for rule_id, undone in _by(plan.marks, "rule_id").items():
        rule, columns = await _remarked(work.memory, work.tx, rule_id, undone)
        said = undoing.words_of(rule, columns)
        if said is not None:
            await _reword(work, said, vectors.get(rule_id), {"id": rule_id, **columns})
        confirmed_at = rule["last_confirmed_at"]
        await rules.mark(work.tx, id=rule_id, confirmed_at=confirmed_at, **columns)
        payload = {"from": rule["maturity"], "to": columns["maturity"]}
        payload |= {"applications": [str(row["id"]) for row in undone]}
        ref = MemoryRef(MemoryType.RULE, rule_id)
        await work.record_undo(EventType.RULE_UNMARKED, ref, payload)


async def _reword(
    work: UndoContext, content: str, made: Embedding | None, columns: dict[str, Any]
) -> None:
    if made is None:
        raise Conflict(f"rule {columns['id']} changed meanwhile; nothing was taken back, try again")
    kept = {name: columns[name] for name in ("id", "maturity", "metadata", "last_at")}
    vector = {"embedding": made.vector, "embedding_version_id": made.version_id}
    words = prepared(preprocess_text(content))
    await rules.reword(work.tx, content=content, searchable=words, **vector, **kept)


async def _remarked(
    memory: Memory, tx: Transaction, rule_id: UUID, undone: Sequence[Row]
) -> tuple[Row, dict[str, Any]]:
    """Load a rule, and its columns without some of its marks."""
    rule = await rules.lock(tx, id=rule_id, now=memory.now())
    assert rule is not None, "a mark is of a rule that exists"
    gone = {row["id"] for row in undone}
    marks = await rules.find_counted_applications(tx, rule_id=rule_id)
    kept = [row for row in marks if row["id"] not in gone]
    return rule, undoing.unmarked(rule, kept, memory.settings.rules)


async def _unlink(work: UndoContext, plan: UndoPlan) -> None:
    for row in await undo.unlink(work.tx, ids=plan.ids, **plan.source.values()):
        payload = {key: str(value) for key, value in row.items()}
        event = Event(EventType.LINK_REMOVED, row["source_id"], payload)
        await work.record(event)


def _by(rows: Sequence[Row], name: str) -> dict[UUID, list[Row]]:
    grouped: dict[UUID, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row[name], []).append(row)
    return grouped


def _ref(row: Row) -> MemoryRef:
    return MemoryRef(MemoryType(row["kind"]), row["id"])
