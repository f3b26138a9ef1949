"""Link facts to the entities that their subjects name, and other facts of the name with them.

Everyone who gives a name to an entity or a fact locks the name first, so that no fact is stored
without its entity while that is being created.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.memory.flows import entity_fact_merge
from butlers.memory.flows.entity_resolution import ranked_bearers
from butlers.memory.handle import UnitOfWork
from butlers.memory.model import Event, EventType, NewFact, Provenance, Trust, Validity
from butlers.memory.policy import naming
from butlers.memory.store import entities
from butlers.memory.store.events import Transition

# How many facts are linked at once; the others follow with the next fact that is stored.
MOST_ADOPTED = 2_000
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class LinkedEntity:
    """The entity that a fact was linked to, or the candidates; empty if the caller named one.

    `is_first`: neither an entity nor a fact had the name before.
    """

    entity_id: UUID | None = None
    is_new: bool = False
    candidates: tuple[dict[str, Any], ...] = ()
    is_first: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the result; none where there is nothing to report."""
        if self.entity_id is not None:
            linked = {"entity_id": self.entity_id, "anchored": True}
            return linked | ({"entity_created": True} if self.is_new else {})
        if not self.candidates:
            return {}
        best, second = (candidate["score"] for candidate in self.candidates[:2])
        shown = list(self.candidates[:_SHOWN])
        return {"entity_candidates": shown, "margin": round(best - second, 4)}


NOT_LINKED = LinkedEntity()


async def link_entity(
    work: UnitOfWork, new: NewFact, provenance: Provenance
) -> tuple[NewFact, LinkedEntity]:
    """Link a fact to the one entity that its subject names, and lock that entity.

    The second fact of a name creates an entity, which takes the first along. Records
    `entity_created`, and `fact_anchored` for each fact that follows.
    """
    if new.entity_id is not None:
        await entities.lock_unmerged(work.tx, new.entity_id)
        return new, NOT_LINKED
    name = naming.as_name(new.subject)
    unlinked, bearers = await _hold_bearers(work.tx, [name])
    if provenance.trust > Trust.LOW:
        bearers = [row for row in bearers if row["trust"] > Trust.LOW]
    if not unlinked and not bearers:
        # Facts are compared by the spellings of the subject as it was given.
        return new, LinkedEntity(is_first=name == new.subject)
    if len(bearers) > 1:
        candidates = await ranked_bearers(work.tx, bearers, name, new)
        return new, LinkedEntity(candidates=tuple(candidates))
    if bearers:
        linked = LinkedEntity(bearers[0]["id"])
    else:
        linked = await _create_implicitly(work, new, provenance, unlinked)
    if linked.entity_id is None:
        return new, linked
    await _adopt(work, linked.entity_id, unlinked)
    return replace(new, entity_id=linked.entity_id), linked


async def hold_all(tx: Transaction, facts: Sequence[NewFact]) -> list[NewFact]:
    """Link facts that are about to be stored together to the one entity each names, if any."""
    names = [naming.as_name(new.subject) for new in facts if new.entity_id is None]
    if not names:
        return list(facts)
    _, rows = await _hold_bearers(tx, names)
    bearers, linked = _by_name(rows), list[NewFact]()
    for new in facts:
        own = bearers.get(naming.as_name(new.subject).lower(), set())
        is_named = new.entity_id is None and len(own) == 1
        linked.append(replace(new, entity_id=next(iter(own))) if is_named else new)
    return linked


async def hold_names(tx: Transaction, names: Iterable[str]) -> None:
    """Lock names: nobody else gives them to an entity or a fact until the transaction ends."""
    await tx.lock_names("name", *(name.lower() for name in names))


async def adopt_named(work: UnitOfWork, entity_id: UUID, names: Sequence[str]) -> None:
    """Link the facts that name an entity, and no other entity, to it."""
    about = {"subjects": naming.spellings(*names), "limit": MOST_ADOPTED}
    unlinked = await entities.find_unlinked_facts(work.tx, **about)
    if not unlinked:
        return
    bearers = _by_name(await entities.hold_bearers_alone(work.tx, names=names))
    keyed = [(naming.as_name(row["subject"]).lower(), row) for row in unlinked]
    await _adopt(work, entity_id, [row for key, row in keyed if bearers.get(key) == {entity_id}])


async def _hold_bearers(tx: Transaction, names: Sequence[str]) -> tuple[list[Row], list[Row]]:
    """Lock names; return the unlinked facts that bear them, and the entities that do, locked."""
    await hold_names(tx, names)
    about = {"subjects": naming.spellings(*names), "limit": MOST_ADOPTED}
    unlinked = await entities.find_unlinked_facts(tx, **about)
    hold = entities.hold_bearers_alone if unlinked else entities.hold_bearers
    return unlinked, await hold(tx, names=names)


async def _create_implicitly(
    work: UnitOfWork, new: NewFact, provenance: Provenance, unlinked: Sequence[Row]
) -> LinkedEntity:
    """Create an entity for a name of which this is the second fact.

    None is created for less trusted facts, for what is no name, and where a merged entity has it.
    """
    key = (new.scope, new.predicate)
    current = [row for row in unlinked if row["validity"] == Validity.ACTIVE]
    others = [row for row in current if (row["scope"], row["predicate"]) != key]
    if not others or provenance.quarantined or provenance.trust <= Trust.TOOL:
        return NOT_LINKED
    name = naming.as_name(new.subject)
    is_a_person = await entities.is_a_person(work.tx, name=name)
    known = [(new.predicate, new.content), *((row["predicate"], row["content"]) for row in others)]
    # The vocabulary of usual words takes a moment to load, in which the loop has others to serve.
    kind = await asyncio.to_thread(naming.kind_of, name, known, is_a_person=is_a_person)
    if not kind:
        return NOT_LINKED
    now, entity_id = work.now, work.memory.new_id()
    columns = {"canonical_name": name, "entity_type": kind, "aliases": [], "metadata": {}}
    trust = provenance.trust
    if not await entities.insert(work.tx, id=entity_id, now=now, trust=trust, **columns):
        return NOT_LINKED
    payload = {**columns, "by_itself": True}
    await work.record(Event(EventType.ENTITY_CREATED, entity_id, payload), now)
    return LinkedEntity(entity_id, is_new=True)


async def _adopt(work: UnitOfWork, entity_id: UUID, unlinked: Sequence[Row]) -> None:
    """Link facts to an entity, one spelling after the other: two may be in conflict.

    The payload of `fact_anchored` holds what undoing it needs.
    """
    now, by_subject = work.now, itemgetter("subject")
    if work.lineage.trust is Trust.LOW:
        unlinked = [row for row in unlinked if row["trust"] == Trust.LOW]
    for _, rows in groupby(sorted(unlinked, key=by_subject), key=by_subject):
        ids = sorted(row["id"] for row in rows)
        plan = await entity_fact_merge.planned(work.tx, ids, entity_id, now)
        plan = plan.within(work.lineage.trust)
        await entity_fact_merge.carry_out(work, plan, now)
        payloads = {
            id: {
                "entity_id": str(entity_id),
                "pairs": [pair for pair in plan.pairs if str(id) in pair[:2]],
            }
            for id in plan.ids
        }
        await work.record(Transition(EventType.FACT_ANCHORED, payloads), now)


def _by_name(rows: Iterable[Row]) -> dict[str, set[UUID]]:
    """Group the ids of entities by each name they bear."""
    bearers: dict[str, set[UUID]] = {}
    for row in rows:
        for name in (row["canonical_name"], *row["aliases"]):
            bearers.setdefault(name.lower(), set()).add(row["id"])
    return bearers
