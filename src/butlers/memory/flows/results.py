"""What a caller is told of what it stored, now or before under the same idempotency key."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.errors import IntegrityViolation
from butlers.memory.flows.conflict_detection import FoundConflict
from butlers.memory.flows.doubts import find_in_doubt
from butlers.memory.flows.entity_linking import NOBODY, LinkedEntity
from butlers.memory.handle import UnitOfWork
from butlers.memory.model import MemoryRef, MemoryType, NewEpisode, NewFact, NewRule
from butlers.memory.store import episodes, facts, rules

_SELDOM = ("waits", "confirmed", "valid_from", "valid_to", "in_doubt", "conflicts", "masked")


@dataclass(frozen=True)
class _Result:
    """What a caller is told of what it stored, and how many secrets were masked on the way."""

    masked: int = field(default=0, kw_only=True)

    def as_dict(self) -> dict[str, Any]:
        """What was stored; of what is told seldom, secrets above all, only what there is."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        if "conflicts" in told:
            told["conflicts"] = [asdict(one) for one in told["conflicts"]]
        whom: dict[str, Any] = told.pop("identity", NOBODY).as_dict()
        return {name: value for name, value in told.items() if value or name not in _SELDOM} | whom


@dataclass(frozen=True)
class StoredEpisode(_Result):
    """An episode that was stored; `waits` says what for, where it is told to nobody yet."""

    id: UUID
    expires_at: datetime
    waits: str | None = None


@dataclass(frozen=True)
class StoredFact(_Result):
    """A fact that was stored, and the one it replaced.

    One that waits for a yes because of a more trusted one is known by its proposal's id.
    """

    id: UUID
    superseded_id: UUID | None
    waits: str | None = None
    in_doubt: Sequence[dict[str, Any]] = ()
    """What rested on the fact it replaced."""
    conflicts: tuple[FoundConflict, ...] = ()
    confirmed: bool = False
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    identity: LinkedEntity = NOBODY


@dataclass(frozen=True)
class StoredRule(_Result):
    """A rule that was stored."""

    id: UUID
    waits: str | None = None


Stored = StoredEpisode | StoredFact | StoredRule


async def with_doubts(work: UnitOfWork, stored: StoredFact) -> StoredFact:
    """What was stored, and what rested on the fact that gave way to it."""
    if stored.superseded_id is None:
        return stored
    before = MemoryRef(MemoryType.FACT, stored.superseded_id)
    return replace(stored, in_doubt=await find_in_doubt(work, [before]))


async def known_episode(tx: Transaction, new: NewEpisode) -> StoredEpisode:
    """The episode that was stored under this idempotency key before."""
    found = await episodes.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    if found is None:
        raise IntegrityViolation("the episode with this idempotency key vanished; try again")
    return StoredEpisode(found["id"], found["expires_at"])


async def known_fact(tx: Transaction, new: NewFact) -> StoredFact | None:
    """What was stored under this idempotency key before, once nobody else is storing it."""
    if new.idempotency_key is None:
        return None
    # Only the first of several writers at once supersedes anything.
    await facts.hold_idempotency_keys(tx, new.idempotency_key)
    found = await facts.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    return StoredFact(found["id"], found["supersedes_id"]) if found else None


async def known_rule(tx: Transaction, new: NewRule) -> StoredRule:
    """The rule that was stored under this idempotency key before."""
    found = await rules.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    if found is None:
        raise IntegrityViolation("the rule with this idempotency key vanished; try again")
    return StoredRule(found["id"])
