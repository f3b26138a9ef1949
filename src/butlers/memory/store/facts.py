"""Facts."""

from dataclasses import dataclass
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, Rows, Touched
from butlers.memory.model import NewFact
from butlers.memory.store import memories

_SQL = load(__file__)

insert = Touched(_SQL["insert"])
is_valid = FirstValue[bool](_SQL["is_valid"])
get_by_idempotency_key = memories.get_fact_by_key
find = memories.find_facts
find_important = Rows(_SQL["find_important"])
find_changed = Rows(_SQL["find_changed"])
confirm = FirstRow(_SQL["confirm"])
retract = FirstValue[str](_SQL["retract"])
get_retracted = FirstRow(_SQL["get_retracted"])
get_window_before = FirstValue[list[str | None]](_SQL["get_window_before"])
restore = Touched(_SQL["restore"])
find_chain = Rows(_SQL["find_chain"])
set_window = Touched(_SQL["set_window"])
copy = Touched(_SQL["copy"])
inherit = Touched(_SQL["inherit"])
get_same = FirstRow(_SQL["get_same"])
# Of a key, which is given as `**asdict(key)`.
get_active = FirstRow(_SQL["get_active"])
find_active = Rows(_SQL["find_active"])
find_by_key = Rows(_SQL["find_by_key"])


@dataclass(frozen=True, slots=True)
class FactKey:
    """What makes an active fact unique: scope and predicate of an entity, or else of a subject."""

    scope: str
    predicate: str
    subject: str
    entity_id: UUID | None

    @classmethod
    def of(cls, new: NewFact) -> "FactKey":
        """Return the key of a new fact."""
        return cls(new.scope, new.predicate, new.subject, new.entity_id)


async def hold_keys(tx: Transaction, *keys: FactKey) -> None:
    """Lock keys, and all facts about their subjects, until the transaction ends."""
    names = []
    for key in keys:
        kind, of = ("entity", key.entity_id) if key.entity_id else ("subject", key.subject)
        names.append("\x1f".join((key.scope, key.predicate, kind, str(of))))
        # Equal for all keys of one subject, whatever its capitals.
        names.append(f"entity {of}" if key.entity_id else key.subject.casefold())
    await tx.lock_names("fact", *names)


async def hold_idempotency_keys(tx: Transaction, *keys: str) -> None:
    """Lock idempotency keys of facts until the transaction ends."""
    await tx.lock_names("fact.once", *keys)
