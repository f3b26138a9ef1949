"""Merging two entities that turned out to be one."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict, InvalidInput
from butlers.memory.flows.entities import living
from butlers.memory.handle import Memory
from butlers.memory.model import Event, EventSubject, EventType, Lineage
from butlers.memory.policy import entities as policy
from butlers.memory.store import entities, links

# How many facts a merge may move and still be taken back.
_MOST_PARTED = 5_000


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a merge did, or would do.

    `facts_repointed` are the source's facts, past ones included, that went over to the target as
    they were; `facts_superseded` are those of either side that lost to a surer one.
    """

    source_entity_id: str
    target_entity_id: str
    facts_repointed: int
    facts_superseded: int
    aliases_added: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """Everything a merge will write, decided while both entities and their facts are held."""

    source: Row
    target: Row
    source_facts: list[UUID]
    rivals: list[Row]
    """Pairs of active facts that would share a key once their entities are one."""

    @property
    def new_aliases(self) -> list[str]:
        """The source's names that the target does not bear yet."""
        names = (*self.source["aliases"], self.source["canonical_name"])
        return policy.unheard_of(names, (self.target["canonical_name"], *self.target["aliases"]))

    @property
    def merged_target(self) -> dict[str, Any]:
        metadata = policy.merged_metadata(self.source["metadata"], self.target["metadata"])
        aliases = [*self.target["aliases"], *self.new_aliases]
        return {**self.target, "aliases": aliases, "metadata": metadata}

    @property
    def tombstone(self) -> dict[str, Any]:
        metadata = {**self.source["metadata"], policy.MERGED_INTO: str(self.target["id"])}
        return {**self.source, "metadata": metadata}

    def check(self, lineage: Lineage) -> None:
        """Conflict where a fact would give way that is more trusted than who merges."""
        if any(pair["loser_trust"] > lineage.trust for pair in self.rivals):
            raise Conflict(
                "a fact that is more trusted than this caller would be superseded; "
                "ask the person who runs the home to merge them"
            )

    @property
    def moved(self) -> dict[str, Any]:
        """What it takes to part them again; of very many facts nothing is kept."""
        if len(self.source_facts) > _MOST_PARTED:
            return {}
        names = ("winner_id", "loser_id", "winner_before")
        pairs = [[pair[name] and str(pair[name]) for name in names] for pair in self.rivals]
        return {
            "facts": list(map(str, self.source_facts)),
            "pairs": pairs,
            "aliases": self.new_aliases,
            "metadata": sorted(self.source["metadata"].keys() - self.target["metadata"].keys()),
        }

    @property
    def report(self) -> MergeReport:
        lost_by_source = sum(not pair["source_wins"] for pair in self.rivals)
        return MergeReport(
            source_entity_id=str(self.source["id"]),
            target_entity_id=str(self.target["id"]),
            facts_repointed=len(self.source_facts) - lost_by_source,
            facts_superseded=len(self.rivals),
            aliases_added=len(self.new_aliases),
        )


async def merge_entities(
    memory: Memory, source_id: UUID, target_id: UUID, lineage: Lineage
) -> MergeReport:
    """Make the source part of the target, with its facts, names and metadata."""
    async with memory.transaction(lineage) as tx:
        plan = await _plan(tx, source_id, target_id)
        plan.check(lineage)
        now = memory.now()
        await _merge_facts(tx, plan, now)
        await entities.update(tx, target_id, plan.merged_target, now)
        await entities.update(tx, source_id, plan.tombstone, now)
        await _record_merge(memory, tx, plan, lineage, now)
    return plan.report


async def preview_merge(
    memory: Memory, source_id: UUID, target_id: UUID, lineage: Lineage
) -> MergeReport:
    """What the merge would report, or raise, if it were done now; nothing changes."""
    async with memory.transaction(lineage) as tx:
        plan = await _plan(tx, source_id, target_id)
    return plan.report


async def _plan(tx: Transaction, source_id: UUID, target_id: UUID) -> _Plan:
    """Hold both entities and their facts, and decide between facts that would share a key.

    Storing a fact holds the entity it names, so from here on neither gains another one.
    """
    if source_id == target_id:
        raise InvalidInput(
            f"target_entity_id: found {target_id}, which is the source; "
            "an entity cannot be merged into itself"
        )
    held = await entities.hold(tx, source_id, target_id)
    source = living(source_id, held.get(source_id), "source_entity")
    target = living(target_id, held.get(target_id), "target_entity")
    source_facts = await entities.hold_facts(tx, source_id=source_id, target_id=target_id)
    rivals = await entities.find_rivals(tx, source_id=source_id, target_id=target_id)
    return _Plan(source, target, source_facts, rivals)


async def _merge_facts(tx: Transaction, plan: _Plan, now: datetime) -> None:
    """Losers give way first, for two active facts under one key cannot exist for a moment.

    Then every fact of the source moves, superseded ones too: history follows the entity, and
    nothing is left behind at the tombstone.
    """
    winners = [pair["winner_id"] for pair in plan.rivals]
    losers = [pair["loser_id"] for pair in plan.rivals]
    await entities.supersede(tx, losers=losers)
    await entities.succeed(tx, winners=winners, losers=losers)
    await links.supersede(tx, winners=winners, losers=losers, now=now)
    await entities.repoint(tx, source_id=plan.source["id"], target_id=plan.target["id"])


async def _record_merge(
    memory: Memory, tx: Transaction, plan: _Plan, lineage: Lineage, now: datetime
) -> None:
    """One event per superseded fact and one for the merge, under the entity that lives on."""
    for pair in plan.rivals:
        payload = {"from": "active", "to": "superseded", "superseded_by": str(pair["winner_id"])}
        event = Event(EventType.FACT_SUPERSEDED, EventSubject.FACT, pair["loser_id"], payload)
        await memory.record(tx, event, lineage, now)
    told = {**asdict(plan.report), "moved": plan.moved}
    merged = Event(EventType.ENTITY_MERGE, EventSubject.ENTITY, plan.target["id"], told)
    await memory.record(tx, merged, lineage, now)
