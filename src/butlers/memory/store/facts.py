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
        """The key that a new fact will have."""
        return cls(new.scope, new.predicate, new.subject, new.entity_id)

    @property
    def name(self) -> str:
        """A text equal for equal keys and different for different ones."""
        about = f"entity\x1f{self.entity_id}" if self.entity_id else f"subject\x1f{self.subject}"
        return "\x1f".join((self.scope, self.predicate, about))

    @property
    def about(self) -> str:
        """A text equal for all keys of one subject, whatever its capitals; no key's name."""
        return f"entity {self.entity_id}" if self.entity_id else self.subject.casefold()


async def hold_keys(tx: Transaction, *keys: FactKey) -> None:
    """Nobody else stores under these keys, or about their subjects, until the transaction ends."""
    await lock_names(tx, "fact", *(name for key in keys for name in (key.name, key.about)))


async def hold_idempotency_keys(tx: Transaction, *keys: str) -> None:
    """Nobody else stores a fact under these idempotency keys until the transaction ends."""
    await lock_names(tx, "fact.once", *keys)


async def get_active(tx: Transaction, key: FactKey, at: datetime) -> Row | None:
    """The fact that holds under the key at a time, or None."""
    return await _get_active(tx, at=at, **asdict(key))


async def find_active(tx: Transaction, key: FactKey, content: str) -> list[Row]:
    """The facts under a key that are believed, and whether each says the same."""
    return await _find_active(tx, content=content, **asdict(key))


async def find_by_key(tx: Transaction, key: FactKey, content: str) -> list[Row]:
    """The facts under a key that are told of some time, and whether each says the same."""
    return await _find_by_key(tx, content=content, **asdict(key))
