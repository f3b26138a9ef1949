"""Facts."""

from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, Rows, Touched
from butlers.memory.model import NewFact
from butlers.memory.store import memories
from butlers.memory.store.locks import lock_names

_SQL = load(__file__)

insert = Touched(_SQL["insert"])
is_valid = FirstValue[bool](_SQL["is_valid"])
get_by_idempotency_key = memories.get_fact_by_key
find = memories.find_facts
confirm = FirstRow(_SQL["confirm"])
retract = FirstValue[str](_SQL["retract"])
get_retracted = FirstRow(_SQL["get_retracted"])
get_window_before = FirstValue[list[str | None]](_SQL["get_window_before"])
restore = Touched(_SQL["restore"])
find_chain = Rows(_SQL["find_chain"])
set_window = Touched(_SQL["set_window"])
copy = Touched(_SQL["copy"])
inherit = Touched(_SQL["inherit"])

_get_active = FirstRow(_SQL["get_active"])
_find_active = Rows(_SQL["find_active"])
_find_by_key = Rows(_SQL["find_by_key"])


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

    @property
    def name(self) -> str:
        """Return a text that is equal for equal keys alone."""
        about = f"entity\x1f{self.entity_id}" if self.entity_id else f"subject\x1f{self.subject}"
        return "\x1f".join((self.scope, self.predicate, about))

    @property
    def about(self) -> str:
        """Return a text that is equal for all keys of one subject, whatever its capitals."""
        return f"entity {self.entity_id}" if self.entity_id else self.subject.casefold()


async def hold_keys(tx: Transaction, *keys: FactKey) -> None:
    """Lock keys, and all facts about their subjects, until the transaction ends."""
    await lock_names(tx, "fact", *(name for key in keys for name in (key.name, key.about)))


async def hold_idempotency_keys(tx: Transaction, *keys: str) -> None:
    """Lock idempotency keys of facts until the transaction ends."""
    await lock_names(tx, "fact.once", *keys)


async def get_active(tx: Transaction, key: FactKey, at: datetime) -> Row | None:
    """Load the fact that is valid under a key at a time, or None."""
    return await _get_active(tx, at=at, **asdict(key))


async def find_active(tx: Transaction, key: FactKey, content: str) -> list[Row]:
    """Find the active facts under a key, and whether each says the same."""
    return await _find_active(tx, content=content, **asdict(key))


async def find_by_key(tx: Transaction, key: FactKey, content: str) -> list[Row]:
    """Find active and past facts under a key, and whether each says the same."""
    return await _find_by_key(tx, content=content, **asdict(key))
