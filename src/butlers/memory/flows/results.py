"""Results of storing a memory, now or before under the same idempotency key."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import IntegrityViolation
from butlers.memory.flows.conflict_detection import FoundConflict
from butlers.memory.flows.entity_linking import NOT_LINKED, LinkedEntity
from butlers.memory.model import MemoryRef, MemoryType, NewEpisode, NewRule
from butlers.memory.store import episodes, facts, rules

_OPTIONAL = ("waits", "confirmed", "valid_from", "valid_to", "in_doubt", "conflicts", "masked")


@dataclass(frozen=True)
class _Result:
    """The result of storing a memory; `masked` counts the secrets that were masked."""

    type: ClassVar[MemoryType]
    id: UUID
    masked: int = field(default=0, kw_only=True)

    @property
    def ref(self) -> MemoryRef:
        """The memory that was stored."""
        return MemoryRef(self.type, self.id)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, without those that are seldom set and empty."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        if "conflicts" in values:
            values["conflicts"] = [asdict(conflict) for conflict in values["conflicts"]]
        identity = values.pop("identity", NOT_LINKED)
        shown = {k: value for k, value in values.items() if value or k not in _OPTIONAL}
        return shown if identity is NOT_LINKED else shown | identity.as_dict()


@dataclass(frozen=True)
class StoredEpisode(_Result):
    """An episode that was stored; `waits` says for what, if it is quarantined."""

    type = MemoryType.EPISODE
    expires_at: datetime
    waits: str | None = None


@dataclass(frozen=True)
class StoredFact(_Result):
    """A fact that was stored, and the one it superseded.

    One that may not supersede a more trusted fact has the id of its proposal.
    """

    type = MemoryType.FACT
    superseded_id: UUID | None
    waits: str | None = None
    in_doubt: Sequence[dict[str, Any]] = ()
    """What depended on the fact it superseded."""
    conflicts: tuple[FoundConflict, ...] = ()
    confirmed: bool = False
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    identity: LinkedEntity = NOT_LINKED


@dataclass(frozen=True)
class StoredRule(_Result):
    """A rule that was stored."""

    type = MemoryType.RULE
    waits: str | None = None


Stored = StoredEpisode | StoredFact | StoredRule


async def known_fact(tx: Transaction, key: str) -> StoredFact | None:
    """Find the fact stored under this idempotency key before. Locks the key."""
    # Only the first of several writers at once supersedes anything.
    await facts.hold_idempotency_keys(tx, key)
    row = await facts.get_by_idempotency_key(tx, idempotency_key=key)
    return StoredFact(row["id"], row["supersedes_id"]) if row else None


async def known_row(tx: Transaction, new: NewEpisode | NewRule) -> Row:
    """Load the episode or rule stored under this idempotency key before."""
    kind, store = ("episode", episodes) if isinstance(new, NewEpisode) else ("rule", rules)
    row: Row | None = await store.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    if row is None:
        raise IntegrityViolation(f"the {kind} with this idempotency key vanished; try again")
    return row


def waits_for(reason: str | None) -> str | None:
    """Say what a quarantined memory waits for; None for one that is not."""
    return f"a person's yes, in quarantine: {reason}" if reason else None
