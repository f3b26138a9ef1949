"""Merge two entities that are the same, and undo a merge."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import Conflict, InvalidInput, NotFound
from butlers.memory.flows import entity_fact_merge, entity_linking
from butlers.memory.flows.authority import must_be_trusted, refuse_entity_of_others
from butlers.memory.flows.entities import unmerged
from butlers.memory.flows.undo_entities import Parted, unmerge_in
from butlers.memory.flows.undo_plan import UndoContext
from butlers.memory.handle import Memory
from butlers.memory.model import Event, EventType, Lineage
from butlers.memory.policy import entities as policy
from butlers.memory.store import entities, facts

# How many facts a preview lists, moved ones and superseded ones each.
_MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a merge did, or would do.

    `facts_repointed` are the source's facts, past ones included, that moved to the target;
    `facts_superseded` are those of either side that a more confident one superseded.
    """

    source_entity_id: str
    target_entity_id: str
    facts_repointed: int
    facts_superseded: int
    aliases_added: int


@dataclass(frozen=True, slots=True)
class MergePreview(MergeReport):
    """What a merge would do, and to which facts; at most a hundred of each."""

    rivalries: list[dict[str, Any]] = field(default_factory=list)
    repointed: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Everything a merge will write, planned while both entities and their facts are locked."""

    source: Row
    target: Row
    move: entity_fact_merge.Move

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the source."""
        return (*self.source["aliases"], self.source["canonical_name"])

    @property
    def new_aliases(self) -> list[str]:
        """The source's names that the target does not have yet."""
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

    @property
    def moved(self) -> dict[str, Any]:
        """What undoing the merge needs."""
        return {
            "facts": list(map(str, self.move.ids)),
            "pairs": self.move.pairs,
            "aliases": self.new_aliases,
            "metadata": sorted(self.source["metadata"].keys() - self.target["metadata"].keys()),
        }

    @property
    def counts(self) -> dict[str, Any]:
        lost_by_source = sum(not merge.loser["is_own"] for merge in self.move.merges)
        return {
            "source_entity_id": str(self.source["id"]),
            "target_entity_id": str(self.target["id"]),
            "facts_repointed": len(self.move.ids) - lost_by_source,
            "facts_superseded": len(self.move.merges),
            "aliases_added": len(self.new_aliases),
        }


async def merge_entities(
    memory: Memory, source_id: UUID, target_id: UUID, lineage: Lineage
) -> MergeReport:
    """Merge the source into the target, with its facts, names and metadata.

    Refuses merged entities and, for less trusted callers, entities of others and superseding more
    trusted facts. Locks the names of both. Records `fact_superseded` for each fact and
    `entity_merge`.
    """
    async with memory.begin(lineage) as work:
        await _hold_names(work.tx, source_id, target_id)
        plan = await _plan(memory, work.tx, source_id, target_id)
        await refuse_entity_of_others(work, source_id, target_id)
        if any(merge.loser["trust"] > lineage.trust for merge in plan.move.merges):
            raise Conflict(
                "the merge would supersede a fact that is more trusted than this caller; "
                "ask the operator of the home to merge them"
            )
        now = memory.now()
        # Every fact moves, superseded ones too: nothing is left behind at the tombstone.
        await entity_fact_merge.carry_out(work, plan.move, now)
        await entities.update(work.tx, target_id, plan.merged_target, now)
        await entities.update(work.tx, source_id, plan.tombstone, now)
        payload = {**plan.counts, "moved": plan.moved}
        await work.record(Event(EventType.ENTITY_MERGE, target_id, payload), now)
        await entity_linking.adopt_named(work, target_id, plan.names)
    return MergeReport(**plan.counts)


async def preview_merge(
    memory: Memory, source_id: UUID, target_id: UUID, lineage: Lineage
) -> MergePreview:
    """Return what a merge would do now, or raise what it would raise. Nothing changes."""
    # Planning locks rows, which only the primary can do.
    async with memory.original.transaction(lineage) as tx:
        plan = await _plan(memory, tx, source_id, target_id)
        lost = {merge.loser["id"] for merge in plan.move.merges}
        moving = [id for id in plan.move.ids if id not in lost][:_MOST_SHOWN]
        rows = await facts.find(tx, ids=moving, now=memory.now())
    rivalries = [
        {"stays": _fact(merge.winner), "gives_way": _fact(merge.loser), "why": merge.why}
        for merge in plan.move.merges[:_MOST_SHOWN]
    ]
    return MergePreview(**plan.counts, rivalries=rivalries, repointed=list(map(_fact, rows)))


async def unmerge_entities(memory: Memory, entity_id: UUID, lineage: Lineage) -> Parted:
    """Undo the last merge of an entity; what was stored about the target since stays with it.

    Refuses callers that are not trusted, and merges that changed since. Records `entity_parted`
    and `fact_restored` for each fact that is current again.
    """
    must_be_trusted(lineage, "undo a merge of entities")
    async with memory.transaction(lineage) as tx:
        if await entities.get(tx, id=entity_id) is None:
            raise NotFound(f"entity_id: entity {entity_id} does not exist")
        merge = await entities.get_merge(tx, id=entity_id)
        if merge is not None:
            await _hold_names(tx, UUID(merge["source_entity_id"]), UUID(merge["target_entity_id"]))
            merge = await entities.get_merge(tx, id=entity_id)
        if merge is None:
            raise Conflict(f"entity {entity_id} has no merge that can be undone")
        parted = await unmerge_in(UndoContext(memory, tx, lineage), merge)
    if parted is None:
        raise Conflict("the merged entity changed since, or was merged again; undo that first")
    return parted


async def _hold_names(tx: Transaction, *ids: UUID) -> None:
    """Lock the names of entities, so that nobody stores a fact under them meanwhile."""
    rows = [await entities.get(tx, id=id) for id in ids]
    named = [(row["canonical_name"], *row["aliases"]) for row in rows if row is not None]
    await entity_linking.hold_names(tx, [name for names in named for name in names])


async def _plan(memory: Memory, tx: Transaction, source_id: UUID, target_id: UUID) -> _Plan:
    """Lock both entities and their facts, and decide between facts that would share a key."""
    if source_id == target_id:
        raise InvalidInput(
            f"target_entity_id: found {target_id}, which is the source; "
            "an entity cannot be merged into itself"
        )
    held = await entities.hold(tx, source_id, target_id)
    source = unmerged(source_id, held.get(source_id), "source_entity")
    target = unmerged(target_id, held.get(target_id), "target_entity")
    moving = await entities.find_facts(tx, id=source_id)
    return _Plan(
        source, target, await entity_fact_merge.planned(tx, moving, target_id, memory.now())
    )


def _fact(row: Row) -> dict[str, Any]:
    shown = ("id", "subject", "predicate", "content", "scope", "state", "effective_confidence")
    return {name: row[name] for name in shown}
