"""Link memories to each other, and list links."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.errors import Conflict, InvalidInput, NotFound
from butlers.kernel.json_values import as_json
from butlers.memory.flows.authority import refuse_more_trusted
from butlers.memory.handle import Memory, UnitOfWork
from butlers.memory.model import (
    Direction,
    Event,
    EventType,
    Lineage,
    Link,
    MemoryRef,
    MemoryType,
    Relation,
)
from butlers.memory.policy.inputs import checked_ref, checked_word
from butlers.memory.store import links, memories


async def create_link(  # noqa: PLR0913 - the two ends of a link are four fields of the contract
    memory: Memory,
    source_type: str,
    source_id: str | UUID,
    target_type: str,
    target_id: str | UUID,
    relation: str,
    lineage: Lineage,
) -> bool:
    """Link two memories of the caller's tenant; false when they are linked so already.

    Refuses missing memories, a link to itself or from a memory that is more trusted than the
    caller, and a `depends_on` link between episodes or in a circle. Records `link_created`.
    """
    link = Link(
        checked_ref("source", source_type, source_id),
        checked_word("relation", relation, Relation),
        checked_ref("target", target_type, target_id),
    )
    if link.source == link.target:
        raise InvalidInput(f"target_id: found {link.target.id}, the source itself; name another")
    async with memory.begin(lineage) as work:
        await _must_exist(work.tx, "source_id", link.source)
        await _must_exist(work.tx, "target_id", link.target)
        await refuse_more_trusted(work, link.source, "link")
        if link.relation is Relation.DEPENDS_ON:
            await _check_ground(work, link)
        return await link_in(work, link)


async def link_in(work: UnitOfWork, link: Link, *, repeats: bool = False) -> bool:
    """Link two memories that exist; false when they are linked so already.

    `repeats`: the event says that the source says again what the target says.
    """
    now = work.now
    if added := await links.insert(work.tx, link, now):
        event = link_event(EventType.LINK_CREATED, links.ends(link))
        payload = event.payload | ({"repeats": True} if repeats else {})
        await work.record(replace(event, payload=payload), now)
    return added


async def depend_in(work: UnitOfWork, ref: MemoryRef, grounds: Sequence[MemoryRef]) -> None:
    """Let a memory depend on others: when one is no longer current, it is in doubt."""
    for ground in grounds:
        link = Link(ref, Relation.DEPENDS_ON, ground)
        await _must_exist(work.tx, "depends_on", ground)
        await _check_ground(work, link)
        await link_in(work, link)


async def derive_in(work: UnitOfWork, ref: MemoryRef, episode_ids: Sequence[UUID]) -> None:
    """Link a memory to the episodes it comes from."""
    for id in episode_ids:
        await link_in(work, Link(ref, Relation.DERIVED_FROM, MemoryRef(MemoryType.EPISODE, id)))


async def get_links(
    memory: Memory, memory_type: str, memory_id: str | UUID, direction: str, lineage: Lineage
) -> list[dict[str, Any]]:
    """List the links from a memory, to it, or both, oldest first."""
    ref = checked_ref("memory", memory_type, memory_id)
    wanted = checked_word("direction", direction, Direction)
    async with memory.transaction(lineage) as tx:
        return [as_json(row) for row in await links.find(tx, ref, wanted)]


async def _must_exist(tx: Transaction, field: str, ref: MemoryRef) -> None:
    if await memories.get_trust(tx, ref) is None:
        raise NotFound(f"{field}: {ref.type} {ref.id} does not exist; search for it")


async def _check_ground(work: UnitOfWork, link: Link) -> None:
    """Refuse what cannot be depended on, and to put what is more trusted in doubt."""
    source, ground = link.source, link.target
    if MemoryType.EPISODE in (source.type, ground.type):
        raise InvalidInput("depends_on: found an episode; valid are facts and rules")
    await refuse_more_trusted(work, source, "add a dependency to")
    circle = {"types": [source.type], "ids": [source.id], "kind": ground.type, "id": ground.id}
    if ground == source or await links.depends_on(work.tx, **circle):
        raise Conflict(f"depends_on: {ground.type} {ground.id} depends on {source.id} itself")
    known = await links.get_relation(work.tx, link)
    if known not in (None, Relation.DEPENDS_ON):
        raise Conflict(f"{source.id} is linked to {ground.id} already, by {known}")


def link_event(kind: EventType, link: Mapping[str, Any]) -> Event:
    """Make the event of a link that was added or removed; its subject is the source."""
    return Event(kind, link["source_id"], {name: str(value) for name, value in link.items()})
