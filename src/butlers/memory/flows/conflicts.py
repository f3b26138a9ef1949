"""List and settle conflicts: facts that contradict or repeat each other.

The fact that does not hold is superseded by the other; nothing else changes.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row
from butlers.errors import Conflict, InvalidInput, NotFound
from butlers.kernel.json_values import as_json
from butlers.kernel.secrets import admitted
from butlers.memory.flows.authority import must_be_trusted, must_decide
from butlers.memory.flows.browse import MAX_LIMIT, Page, page_of
from butlers.memory.flows.fact_windows import moved_window
from butlers.memory.flows.feedback import confirm_in
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import (
    ConflictKind,
    Event,
    EventType,
    Holds,
    Lineage,
    Link,
    MemoryRef,
    MemoryType,
    Relation,
    Settlement,
)
from butlers.memory.policy import cursors, inputs
from butlers.memory.policy.conflict_rules import holds_of
from butlers.memory.policy.validity import Window
from butlers.memory.store import conflicts, facts, links
from butlers.memory.store.browse import EXCERPT
from butlers.memory.store.facts import FactKey

MOST_PREDICATES = 1_000

_OTHER = {"newer": "older", "older": "newer"}


async def find_conflicts(memory: Memory, limit: int, cursor: str | None, lineage: Lineage) -> Page:
    """List open conflicts with both facts, the latest first."""
    limit, place = inputs.checked_limit(limit, MAX_LIMIT), cursors.decode(cursor)
    where = {"place_at": place and place.created_at, "place_id": place and place.id}
    async with memory.transaction(lineage) as tx:
        rows = await conflicts.find_open(tx, limit=limit + 1, excerpt=EXCERPT, **where)
    return page_of(rows, limit)


async def settle(
    memory: Memory,
    conflict_id: str | UUID,
    holds: Settlement,
    lineage: Lineage,
    since: datetime | None = None,
) -> dict[str, Any]:
    """Settle a conflict: the newer or older fact holds, both do, or the newer since a time.

    Refuses callers that are not trusted, conflicts that are not open, and without a person to let
    the less trusted fact hold. Locks the keys of both facts, then the conflict. Records
    `fact_superseded` or `fact_bounded`, `fact_confirmed` and `conflict_settled`; teaches how many
    values the predicates have.
    """
    must_be_trusted(lineage, "settle a conflict")
    id = inputs.checked_id("conflict_id", conflict_id)
    if (since is not None) != (holds is Settlement.SINCE):
        raise InvalidInput("since: give it if holds is 'since', and only then")
    async with memory.transaction(lineage) as tx:
        await facts.hold_keys(tx, *(FactKey(**row) for row in await conflicts.find_keys(tx, id=id)))
        conflict = await conflicts.lock(tx, id=id)
        if conflict is None:
            raise NotFound(f"conflict_id: there is no open conflict {id}; list the open ones")
        work = _Settling(memory, tx, lineage, conflict)
        work.check_authority(holds)
        if holds is Settlement.NEWER:
            await work.newer_holds()
        elif holds in (Settlement.OLDER, Settlement.SAME):
            await work.older_holds()
        elif since is not None:
            await work.newer_since(since)
        await _record_settled(work, holds)
    return {"settled": holds, "newer_id": conflict["newer_id"], "older_id": conflict["older_id"]}


@dataclass(frozen=True, slots=True)
class _Settling(UnitOfWork):
    """A locked conflict that is being settled."""

    conflict: Row

    def fact(self, side: str) -> MemoryRef:
        """The fact on one side."""
        return MemoryRef(MemoryType.FACT, self.conflict[f"{side}_id"])

    def window(self, side: str) -> Window:
        """The validity window of the fact on one side."""
        return Window(self.conflict[f"{side}_from"], self.conflict[f"{side}_to"])

    def begins(self, side: str) -> datetime:
        """When the fact on one side began to hold, or was stored."""
        begins: datetime = self.conflict[f"{side}_from"] or self.conflict[f"{side}_at"]
        return begins

    def check_authority(self, holds: Settlement) -> None:
        """Raise PresenceRequired if a fact gives way to a less trusted one without a person."""
        loser = "newer" if holds in (Settlement.OLDER, Settlement.SAME) else "older"
        is_less = self.conflict[f"{_OTHER[loser]}_trust"] < self.conflict[f"{loser}_trust"]
        if is_less and holds is not Settlement.BOTH:
            must_decide(self.lineage, "let the less trusted of two facts hold")

    async def newer_holds(self) -> None:
        """End the older fact when the newer began."""
        await self._supersede("older", self.window("older").until(self.begins("newer")))
        await confirm_in(self, self.fact("newer"))

    async def older_holds(self) -> None:
        """Give the newer fact an empty window: it never was valid."""
        at = self.begins("newer")
        await self._supersede("newer", Window(at, at))
        await confirm_in(self, self.fact("older"))

    async def newer_since(self, since: datetime) -> None:
        """End the older fact when the newer begins, in the past or the future."""
        older, newer = self.window("older"), self.window("newer")
        if older.begins_after(since) or newer.is_over(since):
            raise InvalidInput(
                f"since: found {since.isoformat()}; valid is a time at which the older fact has "
                "begun and the newer one has not ended"
            )
        end_older = self._supersede if since <= self.now else self._bound
        await end_older("older", older.until(since))
        await self._bound("newer", Window(since, newer.valid_to))

    async def _supersede(self, side: str, window: Window) -> None:
        loser, winner = self.fact(side), self.fact(_OTHER[side])
        await facts.set_window(self.tx, id=loser.id, validity="superseded", **asdict(window))
        await links.insert(self.tx, Link(winner, Relation.SUPERSEDES, loser), self.now)
        payload = {"from": self.conflict[f"{side}_state"], "to": "superseded"}
        payload |= {"superseded_by": str(winner.id), "conflict": str(self.conflict["id"])}
        payload |= moved_window(self.window(side), window)
        await self.record(Event(EventType.FACT_SUPERSEDED, loser.id, payload))

    async def _bound(self, side: str, window: Window) -> None:
        fact = self.fact(side)
        if not await conflicts.set_window(self.tx, id=fact.id, **asdict(window)):
            raise Conflict(
                f"since: another fact has the same key as fact {fact.id} at that time; "
                "correct or forget that one first"
            )
        moved = moved_window(self.window(side), window)
        payload = {"conflict": str(self.conflict["id"]), **moved}
        await self.record(Event(EventType.FACT_BOUNDED, fact.id, payload))


async def _record_settled(work: _Settling, holds: Settlement) -> None:
    """Store the settlement, record it, and learn how many values the predicates have."""
    conflict, by = work.conflict, {"now": work.now, "settled_by": work.lineage.actor}
    await conflicts.settle(work.tx, id=conflict["id"], settled_as=holds, **by)
    sides = {name: str(conflict[name]) for name in ("newer_id", "older_id")}
    payload = {"from": "open", "to": holds, "kind": conflict["kind"], **sides}
    await work.record(Event(EventType.CONFLICT_SETTLED, conflict["id"], payload))
    if conflict["kind"] == ConflictKind.CONFLICT:
        learned = Holds.MANY if holds is Settlement.BOTH else Holds.ONE
        for predicate in sorted({conflict["newer_predicate"], conflict["older_predicate"]}):
            # What everybody knows of a city is not unlearned by one who has two homes.
            if holds_of(predicate, {}) is None:
                await _set_predicate(work, predicate, learned, told=False)


async def set_predicate(
    memory: Memory, predicate: str, holds: Holds, lineage: Lineage
) -> dict[str, Any]:
    """Set whether a predicate has one value at a time or many, for facts stored from now on.

    Refuses callers of low trust. Records `memory_predicate_told`.
    """
    must_be_trusted(lineage, "say what a predicate holds")
    allowed = admitted(memory.settings.secrets, "predicate", predicate)
    name = inputs.checked_line("predicate", allowed, inputs.MAX_PREDICATE)
    async with memory.begin(lineage) as work:
        await _set_predicate(work, name, holds, told=True)
    return {"predicate": name, "holds": holds}


async def find_predicates(memory: Memory, lineage: Lineage) -> list[dict[str, Any]]:
    """List what was set for predicates, or learned from settled conflicts."""
    async with memory.transaction(lineage) as tx:
        rows = await conflicts.find_predicate_rules(tx, limit=MOST_PREDICATES)
    return list(map(as_json, rows))


async def _set_predicate(work: UnitOfWork, predicate: str, holds: Holds, *, told: bool) -> None:
    now, rule = work.now, {"predicate": predicate, "told": told}
    by = work.lineage.actor
    if await conflicts.set_predicate_rule(work.tx, holds=holds, told_by=by, now=now, **rule):
        await work.record(Event(EventType.MEMORY_PREDICATE_TOLD, None, {"to": holds, **rule}), now)
