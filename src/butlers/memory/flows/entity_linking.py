"""Whom a fact is about: its subject's name leads to the entity, and other facts of it follow.

Whoever gives a name to an entity or a fact takes the name first, so that no fact is stored without
its entity while that comes to be.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.memory.flows import entity_fact_merge
from butlers.memory.flows.entity_resolution import ranked_bearers
from butlers.memory.handle import UnitOfWork
from butlers.memory.model import (
    EntityType,
    Event,
    EventType,
    NewFact,
    Provenance,
    Trust,
    Validity,
)
from butlers.memory.policy import naming
from butlers.memory.store import entities, events
from butlers.memory.store.events import Transition
from butlers.memory.store.locks import lock_names

# How many facts follow at once; the others do with the next fact that is stored.
MOST_ADOPTED = 2_000
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class LinkedEntity:
    """Whom a fact was found to be about, or might be; nothing where its teller has said it."""

    entity_id: UUID | None = None
    is_new: bool = False
    candidates: tuple[dict[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """What the teller of the fact is told, where there is something to tell."""
        if self.entity_id is not None:
            told = {"entity_id": self.entity_id, "anchored": True}
            return told | ({"entity_created": True} if self.is_new else {})
        if not self.candidates:
            return {}
        best, second = (one["score"] for one in self.candidates[:2])
        shown = list(self.candidates[:_SHOWN])
        return {"entity_candidates": shown, "margin": round(best - second, 4)}


NOBODY = LinkedEntity()


async def anchored(
    work: UnitOfWork, new: NewFact, provenance: Provenance
) -> tuple[NewFact, LinkedEntity]:
    """The fact with the one entity that its subject names, which is kept meanwhile.

    An entity that comes to be by the second fact of a name takes the first along.
    """
    if new.entity_id is not None:
        await entities.lock_unmerged(work.tx, new.entity_id)
        return new, NOBODY
    name = naming.as_name(new.subject)
    await hold_names(work.tx, [name])
    waiting = await _unanchored(work.tx, [name])
    bearers = await entities.hold_bearers(work.tx, [name], alone=bool(waiting))
    if len(bearers) > 1:
        return new, LinkedEntity(
            candidates=tuple(await ranked_bearers(work.tx, bearers, name, new))
        )
    if bearers:
        found = LinkedEntity(bearers[0]["id"])
    else:
        found = await _by_itself(work, new, provenance, waiting)
    if found.entity_id is None:
        return new, found
    await _adopt(work, found.entity_id, waiting)
    return replace(new, entity_id=found.entity_id), found


async def hold_all(tx: Transaction, facts: Sequence[NewFact]) -> list[NewFact]:
    """Facts about to be stored together, each with the one entity it names, if there is one."""
    names = [naming.as_name(new.subject) for new in facts if new.entity_id is None]
    if not names:
        return list(facts)
    await hold_names(tx, names)
    waiting = await _unanchored(tx, names)
    bearers = _by_name(await entities.hold_bearers(tx, names, alone=bool(waiting)))
    return [_with_bearer(new, bearers) for new in facts]


async def hold_names(tx: Transaction, names: Iterable[str]) -> None:
    """Nobody else gives these names to an entity or a fact until the transaction ends."""
    await lock_names(tx, "name", *(name.lower() for name in names))


async def adopt_named(work: UnitOfWork, entity_id: UUID, names: Sequence[str]) -> None:
    """Facts that name an entity which now bears their name, and no other does, become its own."""
    waiting = await _unanchored(work.tx, names)
    if not waiting:
        return
    bearers = _by_name(await entities.hold_bearers(work.tx, names, alone=True))
    own = [row for row in waiting if bearers.get(_key(row["subject"])) == {entity_id}]
    await _adopt(work, entity_id, own)


async def _by_itself(
    work: UnitOfWork, new: NewFact, provenance: Provenance, waiting: Sequence[Row]
) -> LinkedEntity:
    """An entity for a name of which a second fact speaks."""
    others = [row for row in waiting if _says_more(row, new)]
    if not others or provenance.quarantined or provenance.trust <= Trust.TOOL:
        return NOBODY
    name = naming.as_name(new.subject)
    told = [(row["predicate"], row["content"]) for row in others]
    known = await entities.is_a_person(work.tx, name=name)
    said_of = [(new.predicate, new.content), *told]
    # The vocabulary of usual words takes a moment to load, in which the loop has others to serve.
    kind = await asyncio.to_thread(naming.kind_of, name, said_of, is_a_person=known)
    made = kind and await _create(work, name, kind)
    return LinkedEntity(made, is_new=True) if made else NOBODY


async def _create(work: UnitOfWork, name: str, kind: EntityType) -> UUID | None:
    """The new entity; None where one that was merged away has its name."""
    now, entity_id = work.now, work.new_id()
    new: dict[str, Any] = {
        "canonical_name": name,
        "entity_type": kind,
        "aliases": [],
        "metadata": {},
    }
    if not await entities.insert(work.tx, id=entity_id, now=now, **new):
        return None
    told = {**new, "by_itself": True}
    event = Event(EventType.ENTITY_CREATED, entity_id, told)
    await work.record(event, now)
    return entity_id


async def _adopt(work: UnitOfWork, entity_id: UUID, waiting: Sequence[Row]) -> None:
    """Facts become an entity's, one spelling after the other: two of them may be rivals."""
    now = work.now
    for _, rows in groupby(sorted(waiting, key=_subject), key=_subject):
        ids = sorted(row["id"] for row in rows)
        plan = await entity_fact_merge.planned(work.tx, ids, entity_id, now)
        plan = plan.within(work.lineage.trust)
        await entity_fact_merge.carry_out(work, plan, now)
        await _tell(work, plan, now)


async def _tell(work: UnitOfWork, plan: entity_fact_merge.Move, now: datetime) -> None:
    """An event for each fact, with what it takes to take it back."""
    pairs = plan.pairs
    payloads = {
        id: {
            "entity_id": str(plan.target_id),
            "pairs": [one for one in pairs if str(id) in one[:2]],
        }
        for id in plan.ids
    }
    transition = Transition(EventType.FACT_ANCHORED, payloads)
    await events.append(work.tx, work.memory.new_id, transition, work.lineage, now)


async def _unanchored(tx: Transaction, names: Iterable[str]) -> list[Row]:
    subjects = [way for name in names for way in naming.spellings(name)]
    return await entities.find_unlinked_facts(tx, subjects=subjects, limit=MOST_ADOPTED)


def _with_bearer(new: NewFact, bearers: dict[str, set[UUID]]) -> NewFact:
    found = bearers.get(_key(new.subject), set())
    if new.entity_id is not None or len(found) != 1:
        return new
    return replace(new, entity_id=next(iter(found)))


def _by_name(rows: Iterable[Row]) -> dict[str, set[UUID]]:
    """Which entities bear each name."""
    found: dict[str, set[UUID]] = {}
    for row in rows:
        for name in (row["canonical_name"], *row["aliases"]):
            found.setdefault(name.lower(), set()).add(row["id"])
    return found


def _key(subject: str) -> str:
    return naming.as_name(subject).lower()


def _subject(row: Row) -> str:
    return str(row["subject"])


def _says_more(row: Row, new: NewFact) -> bool:
    """Whether a fact holds that the new one does not replace."""
    key = (row["scope"], row["predicate"])
    return row["validity"] == Validity.ACTIVE and key != (new.scope, new.predicate)
