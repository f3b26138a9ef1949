"""Conflict detection: whether a stored fact contradicts or repeats others about its subject.

Writers about the same subject lock it, so that of two at once the second sees the first. A
conflict refuses, replaces and merges nothing: somebody settles it later.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import ConflictKind, Event, EventType, Holds, Lineage, NewFact
from butlers.memory.policy.conflict_rules import Clash, ComparedFact, Nearness, compare
from butlers.memory.policy.fact_statements import LONGEST_READ, predicate_words, same_property
from butlers.memory.policy.naming import spellings
from butlers.memory.store import conflicts

_BESIDE = 50
"""The number of facts that one is compared with."""
_LATEST = 300
"""The number of a subject's latest facts among which the nearest are chosen."""
_KNOWN_PREDICATES = 200
_MOST_CONFLICTS = 3
"""The number of conflicts recorded for one fact, the most certain first."""


@dataclass(frozen=True, slots=True)
class FoundConflict:
    """A conflict of a stored fact, as callers get it."""

    id: UUID
    kind: ConflictKind
    fact_id: UUID
    says: str
    why: str


async def embed_predicates(memory: Memory, news: Iterable[object], lineage: Lineage) -> None:
    """Embed the predicates that comparing these facts needs, before a transaction begins."""
    facts = [new for new in news if isinstance(new, NewFact)]
    predicates = {new.predicate for new in facts}
    subjects = {f"{lineage.tenant_id} {new.entity_id or new.subject}": new for new in facts}
    unknown = {
        key: new for key, new in subjects.items() if memory.embedded_subjects.get(key) is None
    }
    if unknown:
        names = spellings(*(new.subject for new in unknown.values()))
        ids = [new.entity_id for new in unknown.values() if new.entity_id is not None]
        about = {"names": names, "entity_ids": ids, "limit": _KNOWN_PREDICATES}
        async with memory.begin(lineage) as work:
            rows = await conflicts.find_predicates(work.tx, **about)
            predicates |= {row["predicate"] for row in rows}
    await memory.word_vectors(sorted(map(predicate_words, predicates)))
    for key in unknown:
        memory.embedded_subjects.set(key, True)


async def detect_conflicts(
    work: UnitOfWork, fact_id: UUID, new: NewFact
) -> tuple[FoundConflict, ...]:
    """Find what a stored fact contradicts or repeats, the most certain first.

    Inserts each conflict and records `conflict_found`.
    """
    wanted = {"id": fact_id, "predicates": same_property(new.predicate), "read": LONGEST_READ}
    wanted |= {"names": spellings(new.subject), "most": _LATEST, "limit": _BESIDE}
    rows = await conflicts.find_comparable(work.tx, **wanted)
    if not rows:
        return ()
    newer = ComparedFact(new.subject, new.predicate, new.content)
    found = await _compare(work.memory, newer, list({row["id"]: row for row in rows}.values()))
    best = sorted(found, key=lambda pair: (-pair[1].score, pair[0]["id"]))[:_MOST_CONFLICTS]
    return tuple([await _record_conflict(work, fact_id, row, clash) for row, clash in best])


async def _compare(
    memory: Memory, newer: ComparedFact, beside: Sequence[Row]
) -> list[tuple[Row, Clash]]:
    """Return the rows that a fact is in conflict with, and how."""
    predicates = sorted({newer.predicate, *(row["predicate"] for row in beside)})
    # Rarely one is missing: another process stored it this very moment.
    vectors = await memory.word_vectors([predicate_words(one) for one in predicates])
    near = dict(zip(predicates, vectors, strict=True))
    # Whether each predicate has one value or many, as set or learned.
    known = [(row["predicate"], row["holds"]) for row in beside]
    known += [(newer.predicate, beside[0]["own_holds"])]
    holds = {predicate: Holds(value) for predicate, value in known if value}
    found = []
    for row in beside:
        older = ComparedFact(row["subject"], row["predicate"], row["content"])
        # The vectors have length 1, so that their product is the cosine.
        alike = float(sum(map(mul, near[older.predicate], near[newer.predicate])))
        clash = compare(older, newer, Nearness(alike, row["near"]), holds)
        if clash is not None:
            found.append((row, clash))
    return found


async def _record_conflict(
    work: UnitOfWork, fact_id: UUID, older: Row, clash: Clash
) -> FoundConflict:
    id, now = work.memory.new_id(), work.now
    pair = {"newer_id": fact_id, "older_id": older["id"]}
    scored = {"kind": clash.kind, "score": round(clash.score, 3)}
    if await conflicts.insert(work.tx, id=id, why=clash.why, now=now, **pair, **scored):
        payload: dict[str, Any] = {"to": "open", **scored}
        payload |= {name: str(value) for name, value in pair.items()}
        await work.record(Event(EventType.CONFLICT_FOUND, id, payload), now)
    says = f"{older['subject']} {older['predicate']}: {older['content']}"
    return FoundConflict(id, clash.kind, older["id"], says, clash.why)
