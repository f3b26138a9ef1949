"""Refuse what a caller may not do: by its trust, or because only a person may."""

from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.errors import Conflict, PresenceRequired
from butlers.memory.handle import UnitOfWork
from butlers.memory.model import Lineage, MemoryRef, MemoryType, Trust
from butlers.memory.store import entities, episodes, facts, memories, rules

STORES = {MemoryType.EPISODE: episodes, MemoryType.FACT: facts, MemoryType.RULE: rules}
"""The statements of each type of memory."""


async def is_more_trusted(tx: Transaction, ref: MemoryRef, than: Trust) -> bool:
    """Return whether a memory is more trusted than this; a missing one is not."""
    return (await memories.get_trust(tx, ref) or 0) > than


async def refuse_more_trusted(work: UnitOfWork, ref: MemoryRef, what: str) -> None:
    """Raise Conflict if a memory is more trusted than the caller."""
    if await is_more_trusted(work.tx, ref, work.lineage.trust):
        why = f"{ref.type} {ref.id} comes from a more trusted source"
        raise Conflict(f"{why}, so this caller may not {what} it; ask the operator of the home")


async def refuse_entity_of_others(work: UnitOfWork, *ids: UUID) -> None:
    """Raise Conflict if a caller of low trust did not create one of these entities."""
    if work.lineage.trust >= Trust.STATED:
        return
    for id in ids:
        if not await entities.is_created_by(work.tx, id=id, actor=work.lineage.actor):
            raise Conflict(
                f"entity {id} was created by somebody else, so this low-trust caller may not "
                "change or merge it; ask the operator of the home"
            )


def must_be_trusted(lineage: Lineage, what: str) -> None:
    """Raise Conflict for a caller of low trust."""
    if lineage.trust < Trust.STATED:
        raise Conflict(f"a low-trust caller may not {what}; ask the operator of the home")


def must_be_a_person(lineage: Lineage, what: str) -> None:
    """Raise PresenceRequired for a program: agents do not judge what is held back from them."""
    if not lineage.origin.is_person:
        raise PresenceRequired(what)


def must_decide(lineage: Lineage, what: str) -> None:
    """Raise PresenceRequired unless a person is present, or gave the caller an operator token."""
    if not lineage.may_decide:
        raise PresenceRequired(what)
