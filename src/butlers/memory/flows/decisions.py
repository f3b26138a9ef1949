"""Present and past decisions: a later one makes an earlier one past, a person may say otherwise."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.kernel.json_values import as_json
from butlers.memory.flows.authority import refuse_more_trusted
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import Event, EventType, Lineage, MemoryRef, MemoryType, PieceKind
from butlers.memory.policy.decisions import (
    LONGEST_WORDS,
    frequent_words,
    may_decide,
    only_quotes,
    own_words,
    past_line,
    why_past,
)
from butlers.memory.store import decisions

_MOST_COMPARED, _MOST_PAST = 300, 500


async def present_decisions(
    tx: Transaction, scope: str | None, limit: int, now: datetime
) -> list[Row]:
    """Return the newest decisions of a scope that hold; None for every scope."""
    return await decisions.find_present(tx, scope=scope, limit=limit, now=now)


async def mark_past(work: UnitOfWork, decision_id: UUID, text: str, scope: str) -> None:
    """Compare a new decision with those that hold in its scope, and mark which are past.

    It may be a piece of any session, or short words of a user with which one settles something.
    Usually the new one is the later; a session that is read late may bring the earlier. Locks the
    decisions of the scope. Records `episode_outdated`.
    """
    await work.tx.lock_names("decisions", scope)
    limits = {"most": _MOST_COMPARED, "longest": LONGEST_WORDS}
    text = own_words(text)
    rows = await decisions.find_comparable(work.tx, id=decision_id, now=work.now, **limits)
    frequent = frequent_words(row["content"] for row in rows)
    for row in rows:
        sides = [(row["id"], row["content"]), (decision_id, text)]
        (id, earlier), (by, later) = sides if row["is_earlier"] else reversed(sides)
        why = why_past(later, earlier, row["near"], frequent) if _may_replace(row) else None
        if why is not None:
            await _make_past(work, id, earlier, by, why)
        if id == decision_id and why is not None:
            return


def settles(piece: str | None, text: str) -> bool:
    """Whether a piece is a decision, or short words of a user that may settle something."""
    if piece == PieceKind.DECISION:
        return True
    return piece in (PieceKind.SAID, PieceKind.ANSWER) and may_decide(own_words(text))


def _may_replace(row: Row) -> bool:
    """Whether the later of two decisions is trusted enough, and no person kept the earlier."""
    if not settles(row["piece"], row["content"]):
        return False
    if row["is_earlier"]:
        return row["trusted_more"] <= 0 and not row["was_kept"]
    return bool(row["trusted_more"] >= 0)


async def list_decisions(
    memory: Memory, scope: str | None, limit: int, lineage: Lineage
) -> list[dict[str, Any]]:
    """List the decisions that hold, newest first, each with those that it made past."""
    async with memory.transaction(lineage) as tx:
        now = memory.now()
        present = await present_decisions(tx, scope, limit, now)
        past = await decisions.find_past(tx, scope=scope, limit=_MOST_PAST, now=now)
    roots, earlier = _present_of(past), defaultdict(list)
    for one in past:
        earlier[roots[one["id"]]].append(_earlier(one))
    return [{**as_json(row), "earlier": earlier[row["id"]]} for row in present]


async def restore_decision(memory: Memory, decision_id: UUID, lineage: Lineage) -> bool:
    """Let a past decision hold again; what had made it past does not do so again.

    False if it is not a past decision. Records `episode_reinstated`.
    """
    async with memory.begin(lineage) as work:
        row = await decisions.lock(work.tx, id=decision_id, now=work.now)
        if row is None or row["past_by"] is None:
            return False
        await refuse_more_trusted(work, MemoryRef(MemoryType.EPISODE, row["id"]), "restore")
        ids = [row["id"], *await _quoting(work.tx, row["id"], row["content"], row["past_by"])]
        await decisions.set_present(work.tx, ids=ids)
        payload = {"past_by": {"from": str(row["past_by"]), "to": None}}
        await work.record(Event(EventType.EPISODE_REINSTATED, decision_id, payload), work.now)
    return True


async def retire_decision(
    memory: Memory, decision_id: UUID, by: UUID | None, lineage: Lineage
) -> bool:
    """Mark a decision as past, by a later one or because a person says so.

    False if it is not a decision that holds, or `by` is none. Records `episode_outdated`.
    """
    async with memory.begin(lineage) as work:
        row = await decisions.lock(work.tx, id=decision_id, now=work.now)
        later = await decisions.lock(work.tx, id=by, now=work.now) if by else row
        if row is None or later is None or row["past_by"] is not None:
            return False
        await refuse_more_trusted(work, MemoryRef(MemoryType.EPISODE, row["id"]), "retire")
        await _make_past(work, row["id"], row["content"], later["id"], "a person said so")
    return True


async def _make_past(work: UnitOfWork, id: UUID, text: str, by: UUID, why: str) -> None:
    """Mark a decision as past, with the words of the session that say only that."""
    ids = [id, *await _quoting(work.tx, id, text, None)]
    past = {"past_at": work.now.isoformat()} if id == by else {}
    await decisions.set_past(work.tx, ids=ids, past_by=by, past=past)
    payload = {"past_by": {"from": None, "to": str(by)}, "reason": str(why)}
    await work.record(Event(EventType.EPISODE_OUTDATED, id, payload), work.now)


async def _quoting(tx: Transaction, id: UUID, text: str, past_by: UUID | None) -> Sequence[UUID]:
    rows = await decisions.find_quoting(tx, id=id, past_by=past_by)
    return [row["id"] for row in rows if only_quotes(row["content"], text)]


def _earlier(row: Row) -> dict[str, Any]:
    return {**as_json(row), "line": past_line(row["content"], row["until"].date())}


def _present_of(past: Sequence[Row]) -> dict[UUID, UUID]:
    """Return what past decisions were replaced by in the end, through others that are past too."""
    by = {row["id"]: row["past_by"] for row in past}
    roots = {}
    for id in by:
        root, seen = by[id], {id}
        while root in by and root not in seen:
            seen.add(root)
            root = by[root]
        roots[id] = root
    return roots
