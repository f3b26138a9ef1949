"""Conflict detection: whether a stored fact contradicts or repeats others about its subject.

Writers about the same subject take turns, so that of two at once the second sees the first. A
conflict refuses, replaces and merges nothing: somebody settles it later.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import (
    ConflictKind,
    Event,
    EventType,
    Holds,
    Lineage,
    NewFact,
)
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
    """A conflict of a stored fact, as the caller gets it."""

    id: UUID
    kind: ConflictKind
    fact_id: UUID
    says: str
    why: str


async def embed_predicates(memory: Memory, news: Iterable[object], lineage: Lineage) -> None:
    """Embed the predicates that comparing these facts needs, before a transaction begins."""
    told = [new for new in news if isinstance(new, NewFact)]
    predicates = {new.predicate for new in told}
    strangers = {
        f"{lineage.tenant_id} {new.entity_id or new.subject}": new
        for new in told
        if memory.met.get(f"{lineage.tenant_id} {new.entity_id or new.subject}") is None
    }
    if strangers:
        predicates |= await _predicates_of(memory, strangers.values(), lineage)
    await memory.word_vectors(sorted(map(predicate_words, predicates)))
    for name in strangers:
        memory.met.set(name, True)


async def _predicates_of(memory: Memory, news: Iterable[NewFact], lineage: Lineage) -> set[str]:
    """Load the predicates of subjects seen for the first time."""
    news = list(news)
    names = {name for new in news for name in spellings(new.subject)}
    entities = {new.entity_id for new in news if new.entity_id is not None}
    about = {"names": sorted(names), "entity_ids": list(entities), "limit": _KNOWN_PREDICATES}
    async with memory.transaction(lineage) as tx:
        return {row["predicate"] for row in await conflicts.find_predicates(tx, **about)}


async def detect_conflicts(
    work: UnitOfWork, fact_id: UUID, new: NewFact
) -> tuple[FoundConflict, ...]:
    """Find what a stored fact contradicts or repeats, the most certain first.

    Inserts each conflict and records `conflict_found`.
    """
    wanted = {"id": fact_id, "predicates": same_property(new.predicate), "read": LONGEST_READ}
    wanted |= {"names": spellings(new.subject), "most": _LATEST, "limit": _BESIDE}
    rows = await conflicts.find_comparable(work.tx, **wanted)
    said = ComparedFact(new.subject, new.predicate, new.content)
    found = await _compared(work.memory, said, list({row["id"]: row for row in rows}.values()))
    best = sorted(found, key=lambda one: (-one[1].score, one[0]["id"]))[:_MOST_CONFLICTS]
    return tuple([await _record_conflict(work, fact_id, row, clash) for row, clash in best])


async def _compared(
    memory: Memory, newer: ComparedFact, beside: Sequence[Row]
) -> list[tuple[Row, Clash]]:
    if not beside:
        return []
    predicates = sorted({newer.predicate, *(row["predicate"] for row in beside)})
    # Rarely one is missing: another process stored it this very moment.
    vectors = await memory.word_vectors([predicate_words(one) for one in predicates])
    near = dict(zip(predicates, vectors, strict=True))
    holds = _predicate_facts(newer, beside)
    found = []
    for row in beside:
        older = ComparedFact(row["subject"], row["predicate"], row["content"])
        alike = _cosine(near[older.predicate], near[newer.predicate])
        clash = compare(older, newer, Nearness(alike, row["near"]), holds)
        if clash is not None:
            found.append((row, clash))
    return found


def _predicate_facts(newer: ComparedFact, beside: Sequence[Row]) -> dict[str, Holds]:
    """Whether each predicate has one value or many, as set or learned."""
    told = [(row["predicate"], row["holds"]) for row in beside]
    told += [(newer.predicate, beside[0]["own_holds"])]
    return {predicate: Holds(holds) for predicate, holds in told if holds}


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two unit vectors."""
    return float(sum(map(mul, one, other)))


async def _record_conflict(
    work: UnitOfWork, fact_id: UUID, older: Row, clash: Clash
) -> FoundConflict:
    id, now = work.new_id(), work.now
    pair = {"newer_id": fact_id, "older_id": older["id"]}
    said = {"kind": clash.kind, "score": round(clash.score, 3)}
    if await conflicts.insert(work.tx, id=id, why=clash.why, now=now, **pair, **said):
        payload: dict[str, Any] = {"to": "open", **said}
        payload |= {name: str(value) for name, value in pair.items()}
        event = Event(EventType.CONFLICT_FOUND, id, payload)
        await work.record(event, now)
    says = f"{older['subject']} {older['predicate']}: {older['content']}"
    return FoundConflict(id, clash.kind, older["id"], says, clash.why)
