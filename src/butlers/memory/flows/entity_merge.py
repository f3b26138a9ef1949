"""Merging two entities that turned out to be one, and parting them again."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict, InvalidInput, NotFound
from butlers.memory.flows import entity_fact_merge, entity_linking
from butlers.memory.flows.authority import must_be_trusted
from butlers.memory.flows.entities import living
from butlers.memory.flows.undo_entities import Parted, part
from butlers.memory.flows.undo_plan import UndoContext
from butlers.memory.handle import Memory
from butlers.memory.model import Event, EventType, Lineage
from butlers.memory.policy import entities as policy
from butlers.memory.policy.entities import FactMerge
from butlers.memory.store import entities, facts

# How many facts a preview shows, of those that move and of those that are at odds.
_MOST_SHOWN = 100


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
class MergePreview(MergeReport):
    """What a merge would report, and the facts themselves, a hundred of each at most."""

    rivalries: list[dict[str, Any]] = field(default_factory=list)
    repointed: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Everything a merge will write, decided while both entities and their facts are held."""

    source: Row
    target: Row
    move: entity_fact_merge.Move

    @property
    def names(self) -> tuple[str, ...]:
        """What the source is called."""
        return (*self.source["aliases"], self.source["canonical_name"])

    @property
    def new_aliases(self) -> list[str]:
        """The source's names that the target does not bear yet."""
        known = (self.target["canonical_name"], *self.target["aliases"])
        return policy.unheard_of(self.names, known)

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
        if any(one.loser["trust"] > lineage.trust for one in self.move.rivalries):
            raise Conflict(
                "a fact that is more trusted than this caller would be superseded; "
                "ask the person who runs the home to merge them"
            )

    @property
    def moved(self) -> dict[str, Any]:
        """What it takes to part them again."""
        return {
            "facts": list(map(str, self.move.ids)),
            "pairs": self.move.pairs,
            "aliases": self.new_aliases,
            "metadata": sorted(self.source["metadata"].keys() - self.target["metadata"].keys()),
        }

    @property
    def report(self) -> MergeReport:
        return MergeReport(**self.counts)

    @property
    def counts(self) -> dict[str, Any]:
        lost_by_source = sum(not one.loser["is_own"] for one in self.move.rivalries)
        return {
            "source_entity_id": str(self.source["id"]),
            "target_entity_id": str(self.target["id"]),
            "facts_repointed": len(self.move.ids) - lost_by_source,
            "facts_superseded": len(self.move.rivalries),
            "aliases_added": len(self.new_aliases),
        }


async def merge_entities(
    memory: Memory, source_id: UUID, target_id: UUID, lineage: Lineage
) -> MergeReport:
    """Make the source part of the target, with its facts, names and metadata."""
    async with memory.begin(lineage) as work:
        await _hold_names(work.tx, source_id, target_id)
        plan = await _plan(memory, work.tx, source_id, target_id)
        plan.check(lineage)
        now = memory.now()
        # Every fact moves, superseded ones too: nothing is left behind at the tombstone.
        await entity_fact_merge.carry_out(work, plan.move, now)
        await entities.update(work.tx, target_id, plan.merged_target, now)
        await entities.update(work.tx, source_id, plan.tombstone, now)
        told = {**plan.counts, "moved": plan.moved}
        merged = Event(EventType.ENTITY_MERGE, target_id, told)
        await work.record(merged, now)
        await entity_linking.adopt_named(work, target_id, plan.names)
    return plan.report


async def preview_merge(
    memory: Memory, source_id: UUID, target_id: UUID, lineage: Lineage
) -> MergePreview:
    """What the merge would report, or raise, if it were done now; nothing changes."""
    now = memory.now()
    # What would be merged is locked while that is planned, which only the original can do.
    async with memory.original.transaction(lineage) as tx:
        plan = await _plan(memory, tx, source_id, target_id)
        lost = {one.loser["id"] for one in plan.move.rivalries}
        moving = [id for id in plan.move.ids if id not in lost][:_MOST_SHOWN]
        rows = await facts.find(tx, ids=moving, now=now)
    shown = [_rivalry(one) for one in plan.move.rivalries[:_MOST_SHOWN]]
    return MergePreview(**plan.counts, rivalries=shown, repointed=[_fact(row) for row in rows])


async def unmerge_entities(memory: Memory, entity_id: UUID, lineage: Lineage) -> Parted:
    """Take the last merge of an entity back; what was told of the target since stays with it."""
    must_be_trusted(lineage, "part entities that were merged")
    async with memory.transaction(lineage) as tx:
        if await entities.get(tx, id=entity_id) is None:
            raise NotFound(f"entity_id: entity {entity_id} does not exist")
        merge = await _held_merge(tx, entity_id)
        if merge is None:
            raise Conflict(f"entity {entity_id} is no part of a merge that can be taken back")
        parted = await part(UndoContext(memory, tx, lineage), merge)
    if parted is None:
        raise Conflict(
            "what was merged has changed since, or is part of another now; part that first"
        )
    return parted


async def _held_merge(tx: Transaction, entity_id: UUID) -> Row | None:
    """The last merge of an entity, once nobody stores under the names of either side."""
    merge = await entities.get_merge(tx, id=entity_id)
    if merge is None:
        return None
    await _hold_names(tx, UUID(merge["source_entity_id"]), UUID(merge["target_entity_id"]))
    return await entities.get_merge(tx, id=entity_id)


async def _hold_names(tx: Transaction, *ids: UUID) -> None:
    """Nobody stores a fact under their names meanwhile."""
    rows = [await entities.get(tx, id=id) for id in ids]
    known = [(row["canonical_name"], *row["aliases"]) for row in rows if row is not None]
    await entity_linking.hold_names(tx, [name for names in known for name in names])


async def _plan(memory: Memory, tx: Transaction, source_id: UUID, target_id: UUID) -> _Plan:
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
    moving = await entities.find_facts(tx, id=source_id)
    return _Plan(
        source, target, await entity_fact_merge.planned(tx, moving, target_id, memory.now())
    )


def _rivalry(rivalry: FactMerge) -> dict[str, Any]:
    sides = {"stays": rivalry.winner, "gives_way": rivalry.loser}
    return {**{name: _fact(row) for name, row in sides.items()}, "why": rivalry.why}


def _fact(row: Row) -> dict[str, Any]:
    shown = ("id", "subject", "predicate", "content", "scope", "state", "effective_confidence")
    return {name: row[name] for name in shown}
