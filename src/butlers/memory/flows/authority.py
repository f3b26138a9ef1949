"""What a caller may not do to a memory that is more trusted than it."""

from butlers.db.postgres import Transaction
from butlers.errors import Conflict
from butlers.memory.handle import UnitOfWork
from butlers.memory.model import Lineage, MemoryRef, Trust
from butlers.memory.store import memories


async def is_more_trusted(tx: Transaction, ref: MemoryRef, than: Trust) -> bool:
    """Whether a memory is more trusted than somebody; one that does not exist is not."""
    return (await memories.get_trust(tx, ref) or 0) > than


async def must_reach(work: UnitOfWork, ref: MemoryRef, what: str) -> None:
    """Conflict where a memory is more trusted than who would do something to it."""
    if await is_more_trusted(work.tx, ref, work.lineage.trust):
        raise Conflict(
            f"{ref.type} {ref.id} comes from somebody more trusted than this caller, "
            f"who may not {what} it; ask the person who runs the home"
        )


def must_be_trusted(lineage: Lineage, what: str) -> None:
    """Conflict for a caller of less than full trust."""
    if lineage.trust < Trust.STATED:
        raise Conflict(f"a caller of low trust may not {what}; a person has to")


def must_be_a_person(lineage: Lineage, what: str) -> None:
    """Conflict for whoever is no person: an agent does not judge what was held back from it."""
    if not lineage.origin.is_person:
        raise Conflict(
            f"only a person may {what}: `butlers memory …` at a terminal, or signed in to the pages"
        )
