"""Facts that become an entity's: where two would hold at once under one key, one gives way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.memory.flows.fact_windows import moved_window, window_of
from butlers.memory.handle import UnitOfWork
from butlers.memory.model import EventType, Trust
from butlers.memory.policy.entities import FactMerge, settled
from butlers.memory.policy.validity import Window
from butlers.memory.store import entities, events, links
from butlers.memory.store.events import Transition


@dataclass(frozen=True, slots=True)
class Move:
    """Facts on their way to an entity, and who of either side gives way to whom."""

    ids: list[UUID]
    target_id: UUID
    rivals: list[Row]
    rivalries: list[FactMerge]

    def within(self, trust: Trust) -> "Move":
        """The same without facts over which one would give way that is trusted further."""
        denied = [one for one in self.rivalries if one.loser["trust"] > trust]
        sides = {row["id"] for one in denied for row in (one.winner, one.loser)}
        stay = {row["id"] for row in self.rivals if row["id"] in sides and not row["is_own"]}
        if not stay:
            return self
        rivals = [row for row in self.rivals if row["id"] not in stay]
        ids = [id for id in self.ids if id not in stay]
        return replace(self, ids=ids, rivals=rivals, rivalries=settled(rivals)).within(trust)

    @property
    def pairs(self) -> list[list[str | None]]:
        """What it takes to take it back: winner, loser, what the winner had replaced before, when
        the loser held, and since when the winner does, where that was open."""
        return [_pair(one) for one in self.rivalries]


async def planned(tx: Transaction, ids: Sequence[UUID], target_id: UUID, now: datetime) -> Move:
    """Hold the facts of an entity and those that shall be its own, and decide between them.

    Whoever calls it keeps the entity, so that it gains no other fact meanwhile.
    """
    await entities.hold_facts(tx, ids=ids, target_id=target_id)
    rivals = await entities.find_overlapping_facts(tx, ids=ids, target_id=target_id, now=now)
    return Move(list(ids), target_id, rivals, settled(rivals))


async def carry_out(work: UnitOfWork, move: Move, now: datetime) -> None:
    """Losers give way first, for two facts that hold at once cannot share a key for a moment."""
    winners = [one.winner["id"] for one in move.rivalries]
    losers = [one.loser["id"] for one in move.rivalries]
    if losers:
        ended = await entities.supersede_facts(work.tx, winners=winners, losers=losers)
        await _begin(work, move.rivalries, now)
        await entities.succeed(work.tx, winners=winners, losers=losers)
        await links.supersede(work.tx, winners=winners, losers=losers, now=now)
        await _tell(work, move.rivalries, ended, now)
    await entities.repoint(work.tx, ids=move.ids, target_id=move.target_id)


async def _begin(work: UnitOfWork, rivalries: Iterable[FactMerge], now: datetime) -> None:
    """What was told after what gives way holds since then, and says so."""
    begun = {one.winner["id"]: one for one in rivalries if one.since is not None}
    if not begun:
        return
    sinces = [one.since for one in begun.values()]
    await entities.begin(work.tx, winners=list(begun), sinces=sinces)
    payloads = {id: _began(one) for id, one in begun.items()}
    transition = Transition(EventType.FACT_BOUNDED, payloads)
    await events.append(work.tx, work.memory.new_id, transition, work.lineage, now)


def _began(rivalry: FactMerge) -> dict[str, Any]:
    winner = rivalry.winner
    moved = moved_window(window_of(winner), Window(rivalry.since, winner["valid_to"]))
    return {**moved, "bounded_by": str(rivalry.loser["id"])}


async def _tell(
    work: UnitOfWork, rivalries: Iterable[FactMerge], ended: Iterable[Row], now: datetime
) -> None:
    until = {row["id"]: row for row in ended}
    payloads = {one.loser["id"]: _gave_way(one, until[one.loser["id"]]) for one in rivalries}
    transition = Transition(EventType.FACT_SUPERSEDED, payloads)
    await events.append(work.tx, work.memory.new_id, transition, work.lineage, now)


def _gave_way(rivalry: FactMerge, ended: Row) -> dict[str, Any]:
    told = {"from": rivalry.loser["state"], "to": "superseded"}
    moved = moved_window(window_of(rivalry.loser), window_of(ended))
    return {**told, "superseded_by": str(rivalry.winner["id"]), **moved}


def _pair(rivalry: FactMerge) -> list[str | None]:
    winner, loser = rivalry.winner, rivalry.loser
    before, since = winner["supersedes_id"], rivalry.since
    told = [str(winner["id"]), str(loser["id"]), before and str(before)]
    told += window_of(loser).told()
    return [*told, since.isoformat() if since else None]
