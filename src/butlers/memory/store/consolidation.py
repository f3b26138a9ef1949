"""Episodes on their way to knowledge: what can be claimed, what is held, how it ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.db.queries import load
from butlers.memory.model import MemoryRef
from butlers.memory.store.facts import FactKey

_SQL = load(__file__)

# Distances are computed for this many memories at most, however large a tenant has grown.
_CONSIDERED = 5_000


@dataclass(frozen=True, slots=True)
class Lease:
    """Episodes held by one run."""

    run_id: str
    episode_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """How much of which butler's episodes a run wants, and until when it holds them."""

    run_id: str
    butler: str
    batch_size: int
    max_chars: int
    until: datetime


async def find_claimable(tx: Transaction, batch_size: int, now: datetime) -> list[Row]:
    """The butlers with episodes to consolidate, and how many of each a run would take."""
    return await tx.fetch(_SQL["claimable"], batch_size=batch_size, now=now)


async def take_turn(tx: Transaction, butler: str) -> None:
    """Claims on one butler's episodes are made one after the other."""
    key = "\x1f".join(("butlers.consolidation", tx.tenant_id, butler))
    await tx.execute(_SQL["take_turn"], key=key)


async def abandon(
    tx: Transaction, butler: str, max_attempts: int, reason: str, now: datetime
) -> list[Row]:
    """Episodes whose holder is gone, with an attempt counted; how each is now."""
    return await tx.fetch(
        _SQL["abandon"],
        butler=butler,
        max_attempts=max_attempts,
        reason=reason,
        now=now,
    )


async def claim(tx: Transaction, wanted: Claim, now: datetime) -> list[Row]:
    """The oldest episodes of a butler, held by the run; none while another holds some."""
    return await tx.fetch(
        _SQL["claim"],
        butler=wanted.butler,
        batch_size=wanted.batch_size,
        max_chars=wanted.max_chars,
        run_id=wanted.run_id,
        until=wanted.until,
        now=now,
    )


async def renew(tx: Transaction, lease: Lease, until: datetime) -> bool:
    """Hold on until then; false when some of the episodes are no longer held."""
    kept = await tx.execute(
        _SQL["renew"],
        ids=lease.episode_ids,
        run_id=lease.run_id,
        until=until,
    )
    return kept == len(lease.episode_ids)


async def release(tx: Transaction, lease: Lease) -> None:
    """Let go of what is still held, as if it had never been claimed."""
    await tx.execute(_SQL["release"], ids=lease.episode_ids, run_id=lease.run_id)


async def hold(tx: Transaction, lease: Lease, now: datetime) -> list[Row]:
    """What is still held and has not expired, locked; the state each `was` in."""
    return await tx.fetch(
        _SQL["hold"],
        ids=lease.episode_ids,
        run_id=lease.run_id,
        now=now,
    )


async def consolidate(tx: Transaction, lease: Lease) -> int:
    """Settle what is still held as consolidated; how many episodes that are."""
    return await tx.execute(_SQL["consolidate"], ids=lease.episode_ids, run_id=lease.run_id)


async def fail(
    tx: Transaction, lease: Lease, max_attempts: int, reason: str, now: datetime
) -> list[Row]:
    """Settle what is still held as failed, or as dead letters; how each is now."""
    return await tx.fetch(
        _SQL["fail"],
        ids=lease.episode_ids,
        run_id=lease.run_id,
        max_attempts=max_attempts,
        reason=reason,
        now=now,
    )


async def find_known_facts(
    tx: Transaction, butler: str, episode_ids: Sequence[UUID], limit: int
) -> list[Row]:
    """The active facts a butler sees, nearest to the episodes first."""
    return await tx.fetch(
        _SQL["known_facts"],
        butler=butler,
        ids=episode_ids,
        considered=max(_CONSIDERED, limit),
        limit=limit,
    )


async def find_known_rules(
    tx: Transaction, butler: str, episode_ids: Sequence[UUID], limit: int
) -> list[Row]:
    """The rules a butler follows, nearest to the episodes first."""
    return await tx.fetch(
        _SQL["known_rules"],
        butler=butler,
        ids=episode_ids,
        considered=max(_CONSIDERED, limit),
        limit=limit,
    )


async def lock_keys(tx: Transaction, keys: Sequence[FactKey]) -> None:
    """Nobody else writes a fact under these keys until the transaction ends."""
    names = [key.lock_name(tx.tenant_id) for key in keys]
    await tx.fetch(_SQL["lock_keys"], keys=names)


async def get_active_fact(tx: Transaction, key: FactKey) -> Row | None:
    """The fact that holds a key, or None."""
    return await tx.fetch_one(
        _SQL["active_fact"],
        scope=key.scope,
        predicate=key.predicate,
        subject=key.subject,
        entity_id=key.entity_id,
    )


async def get_same_rule(tx: Transaction, scope: str, content: str) -> UUID | None:
    """The rule in use that says the same, or None."""
    found: UUID | None = await tx.fetch_value(_SQL["same_rule"], scope=scope, content=content)
    return found


async def derive(
    tx: Transaction, memory: MemoryRef, episode_ids: Sequence[UUID], now: datetime
) -> None:
    """Link a memory to the episodes it comes from."""
    await tx.execute(
        _SQL["derive"],
        source_type=memory.type,
        source_id=memory.id,
        episode_ids=episode_ids,
        now=now,
    )


async def find_dead_letters(tx: Transaction) -> list[Row]:
    """The episodes given up on, oldest first."""
    return await tx.fetch(_SQL["dead_letters"])


async def requeue(tx: Transaction, episode_ids: Sequence[UUID] | None) -> list[Row]:
    """Let dead letters start again, all of them for None; why each had been given up on."""
    return await tx.fetch(_SQL["requeue"], ids=episode_ids)
