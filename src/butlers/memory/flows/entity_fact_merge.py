"""Move facts to an entity: where two would be current under one key, one is superseded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.memory.flows.fact_windows import moved_window, window_of
from butlers.memory.handle import UnitOfWork
from butlers.memory.model import EventType, Trust
from butlers.memory.policy.entities import FactMerge, settled
from butlers.memory.policy.validity import Window
from butlers.memory.store import entities, links
from butlers.memory.store.events import Transition


@dataclass(frozen=True, slots=True)
class Move:
    """Facts that move to an entity, the overlapping facts of both sides, and which one wins."""

    ids: list[UUID]
    target_id: UUID
    overlapping: list[Row]
    merges: list[FactMerge]

    def within(self, trust: Trust) -> "Move":
        """Leave out the facts for which a fact of more than this trust would be superseded."""
        denied = [merge for merge in self.merges if merge.loser["trust"] > trust]
        sides = {row["id"] for merge in denied for row in (merge.winner, merge.loser)}
        stay = {row["id"] for row in self.overlapping if row["id"] in sides and not row["is_own"]}
        if not stay:
            return self
        rows = [row for row in self.overlapping if row["id"] not in stay]
        ids = [id for id in self.ids if id not in stay]
        return Move(ids, self.target_id, rows, settled(rows)).within(trust)

    @property
    def pairs(self) -> list[list[str | None]]:
        """What undoing the move needs of each pair.

        Winner, loser, what the winner had superseded before, the loser's window, and the winner's
        new `valid_from`, if it was open.
        """
        return [_pair(merge) for merge in self.merges]


async def planned(tx: Transaction, ids: Sequence[UUID], target_id: UUID, now: datetime) -> Move:
    """Lock the facts of an entity and those that shall move to it, and decide between them.

    The caller must hold the entity, so that it gains no other fact meanwhile.
    """
    await entities.hold_facts(tx, ids=ids, target_id=target_id)
    overlapping = await entities.find_overlapping_facts(tx, ids=ids, target_id=target_id, now=now)
    return Move(list(ids), target_id, overlapping, settled(overlapping))


async def carry_out(work: UnitOfWork, move: Move, now: datetime) -> None:
    """Supersede the losers, then move the facts: two current facts cannot share a key.

    Records `fact_superseded` for each loser, `fact_bounded` for each winner that begins later.
    """
    winners = [merge.winner["id"] for merge in move.merges]
    losers = [merge.loser["id"] for merge in move.merges]
    if losers:
        ended = await entities.supersede_facts(work.tx, winners=winners, losers=losers)
        await _begin(work, move.merges, now)
        await entities.succeed(work.tx, winners=winners, losers=losers)
        await links.supersede(work.tx, winners=winners, losers=losers, now=now)
        after = {row["id"]: window_of(row) for row in ended}
        payloads = {
            merge.loser["id"]: {
                "from": merge.loser["state"],
                "to": "superseded",
                "superseded_by": str(merge.winner["id"]),
                **moved_window(window_of(merge.loser), after[merge.loser["id"]]),
            }
            for merge in move.merges
        }
        await work.record(Transition(EventType.FACT_SUPERSEDED, payloads), now)
    await entities.repoint(work.tx, ids=move.ids, target_id=move.target_id)


async def _begin(work: UnitOfWork, merges: Iterable[FactMerge], now: datetime) -> None:
    """Let each winner that was stored later begin then."""
    begun = {merge.winner["id"]: merge for merge in merges if merge.since is not None}
    if not begun:
        return
    sinces = [merge.since for merge in begun.values()]
    await entities.begin(work.tx, winners=list(begun), sinces=sinces)
    payloads = {}
    for id, merge in begun.items():
        window = Window(merge.since, merge.winner["valid_to"])
        moved = moved_window(window_of(merge.winner), window)
        payloads[id] = {**moved, "bounded_by": str(merge.loser["id"])}
    await work.record(Transition(EventType.FACT_BOUNDED, payloads), now)


def _pair(merge: FactMerge) -> list[str | None]:
    winner, loser, since = merge.winner, merge.loser, merge.since
    before = winner["supersedes_id"] and str(winner["supersedes_id"])
    window = window_of(loser).told()
    begins = since.isoformat() if since else None
    return [str(winner["id"]), str(loser["id"]), before, *window, begins]
