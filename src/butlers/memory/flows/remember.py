"""Storing memories: cleaned and embedded first, then one transaction with its events."""

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import IntegrityViolation, NotFound
from butlers.kernel.text import preprocess_text
from butlers.kernel.words import prepared
from butlers.memory.flows.clashes import FoundConflict, know_predicates, look_in
from butlers.memory.flows.proposing import let_fact_wait
from butlers.memory.handle import Embedding, Memory
from butlers.memory.model import (
    Event,
    EventSubject,
    EventType,
    Lineage,
    Link,
    MemoryRef,
    MemoryType,
    New,
    NewEpisode,
    NewFact,
    NewRule,
    Relation,
)
from butlers.memory.pace import FLOOD
from butlers.memory.policy import confidence, trust
from butlers.memory.policy.attachments import (
    checked_episode,
    checked_fact,
    checked_rule,
    masked_between,
)
from butlers.memory.policy.scopes import of_source
from butlers.memory.policy.suspicion import DEMAND
from butlers.memory.store import entities, episodes, facts, links, rules
from butlers.memory.store.facts import FactKey

Drawn = TypeVar("Drawn", NewFact, NewRule)
T = TypeVar("T", bound=New)


@dataclass(frozen=True)
class _Told:
    """What a caller is told of what it stored, and how many secrets were masked on the way."""

    masked: int = field(default=0, kw_only=True)

    def as_dict(self) -> dict[str, Any]:
        """What was stored; of secrets, reasons to wait and conflicts only where there are any."""
        told = asdict(self)
        seldom = {name: told.pop(name) for name in ("waits", "masked", "conflicts") if name in told}
        return told | {name: value for name, value in seldom.items() if value}


@dataclass(frozen=True)
class StoredEpisode(_Told):
    """An episode that was stored; `waits` says what for, where it is told to nobody yet."""

    id: UUID
    expires_at: datetime
    waits: str | None = None


@dataclass(frozen=True)
class StoredFact(_Told):
    """A fact that was stored, and the one it replaced; one that waits has its proposal's id."""

    id: UUID
    superseded_id: UUID | None
    waits: str | None = None
    conflicts: tuple[FoundConflict, ...] = ()


@dataclass(frozen=True)
class StoredRule(_Told):
    """A rule that was stored."""

    id: UUID
    waits: str | None = None


Stored = StoredEpisode | StoredFact | StoredRule


async def store_episode(memory: Memory, new: NewEpisode, lineage: Lineage) -> StoredEpisode:
    """Store what happened; it expires after the configured days."""
    given, new = new, paced(memory, checked_episode(new, memory.settings), lineage)
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.transaction(lineage) as tx:
        stored = await store_episode_in(memory, tx, new, embedding, lineage)
    return replace(stored, masked=masked_between(given, new))


async def store_episode_in(  # noqa: PLR0913 - as the others, and what its event tells beside
    memory: Memory,
    tx: Transaction,
    new: NewEpisode,
    embedding: Embedding,
    lineage: Lineage,
    told: dict[str, Any] | None = None,
) -> StoredEpisode:
    """Store a checked and embedded episode inside a transaction that may hold more."""
    now, episode_id = memory.now(), memory.new_id()
    expires_at = now + timedelta(days=memory.settings.episodes.default_ttl_days)
    said = trust.provenance(new, lineage)
    row = _row(episode_id, new, embedding, now, said)
    if await episodes.insert(tx, expires_at=expires_at, **row) is None:
        return await _known_episode(tx, new)
    payload = {"to": "pending", "butler": new.butler, "importance": new.importance, **(told or {})}
    event = Event(EventType.EPISODE_CREATED, EventSubject.EPISODE, episode_id, payload | _why(said))
    await memory.record(tx, event, lineage, now)
    return StoredEpisode(episode_id, expires_at, _waits(said))


async def store_fact(memory: Memory, new: NewFact, lineage: Lineage) -> StoredFact:
    """Store what is true; an active fact with the same key is superseded by it."""
    given, new = new, paced(memory, checked_fact(new, memory.settings), lineage)
    embedding = await memory.embed(new.searchable_text, lineage)
    await know_predicates(memory, [new], lineage)
    async with memory.transaction(lineage) as tx:
        stored = await store_fact_in(memory, tx, new, embedding, lineage)
    return replace(stored, masked=masked_between(given, new))


async def store_fact_in(
    memory: Memory, tx: Transaction, new: NewFact, embedding: Embedding, lineage: Lineage
) -> StoredFact:
    """Store a checked and embedded fact inside a transaction that may hold more."""
    known = await _known_fact(tx, new)
    if known is not None:
        return known
    if new.entity_id is not None:
        await entities.hold_living(tx, new.entity_id)
    new, said = await _with_its_source(tx, new, lineage)
    if said["quarantined"]:
        return await _insert_fact(memory, tx, new, embedding, lineage, said)
    await facts.hold_keys(tx, FactKey.of(new))
    holder = await facts.get_active(tx, FactKey.of(new))
    if holder is not None and holder["trust"] > said["trust"]:
        waiting = await let_fact_wait(memory, tx, new, holder, lineage)
        return StoredFact(waiting.id, None, waiting.why)
    return await _insert_fact(memory, tx, new, embedding, lineage, said)


async def _insert_fact(  # noqa: PLR0913 - as above, and what is known of where it comes from
    memory: Memory,
    tx: Transaction,
    new: NewFact,
    embedding: Embedding,
    lineage: Lineage,
    said: dict[str, Any],
) -> StoredFact:
    """Insert a fact; unless it is held, what holds its key gives way."""
    now, fact_id = memory.now(), memory.new_id()
    before = None if said["quarantined"] else await facts.supersede_active(tx, FactKey.of(new))
    replaced: UUID | None = before["id"] if before else None
    more = {"supersedes_id": replaced, "decay_rate": confidence.DECAY_RATES[new.permanence]}
    await facts.insert(tx, **more, **_row(fact_id, new, embedding, now, said))
    await memory.record(tx, _fact_created(fact_id, new, replaced, said), lineage, now)
    if before is not None:
        await record_supersession(memory, tx, fact_id, before, lineage, now)
    found = () if said["quarantined"] else await look_in(memory, tx, fact_id, new, lineage)
    return StoredFact(fact_id, replaced, _waits(said), found)


async def store_rule(memory: Memory, new: NewRule, lineage: Lineage) -> StoredRule:
    """Store how to behave; every rule starts as a candidate."""
    given, new = new, paced(memory, checked_rule(new, memory.settings), lineage)
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.transaction(lineage) as tx:
        stored = await store_rule_in(memory, tx, new, embedding, lineage)
    return replace(stored, masked=masked_between(given, new))


async def store_rule_in(
    memory: Memory, tx: Transaction, new: NewRule, embedding: Embedding, lineage: Lineage
) -> StoredRule:
    """Store a checked and embedded rule inside a transaction that may hold more."""
    new, said = await _with_its_source(tx, new, lineage)
    now, rule_id = memory.now(), memory.new_id()
    decay = {"confidence": confidence.RULE_CONFIDENCE, "decay_rate": confidence.RULE_DECAY_RATE}
    if not await rules.insert(tx, **decay, **_row(rule_id, new, embedding, now, said)):
        return await _known_rule(tx, new)
    payload = {"to": "candidate", "scope": new.scope, **_source(new), **_why(said)}
    event = Event(EventType.RULE_CREATED, EventSubject.RULE, rule_id, payload)
    await memory.record(tx, event, lineage, now)
    return StoredRule(rule_id, _waits(said))


def paced(memory: Memory, new: T, lineage: Lineage) -> T:
    """What is stored, doubted where it comes in a flood."""
    settings, now = memory.settings.quarantine, memory.now()
    most = settings.max_writes_per_minute if settings.enabled else 0
    return replace(new, doubt=FLOOD) if memory.pace.is_flood(lineage, most, now) else new


async def record_supersession(
    memory: Memory, tx: Transaction, fact_id: UUID, before: Row, lineage: Lineage, now: datetime
) -> None:
    """Link a fact to the one it replaced, and tell the audit stream."""
    fact, old = MemoryRef(MemoryType.FACT, fact_id), MemoryRef(MemoryType.FACT, before["id"])
    await links.insert(tx, Link(fact, Relation.SUPERSEDES, old), now)
    payload = {"from": before["was"], "to": "superseded", "superseded_by": str(fact_id)}
    event = Event(EventType.FACT_SUPERSEDED, EventSubject.FACT, old.id, payload)
    await memory.record(tx, event, lineage, now)


async def _with_its_source(
    tx: Transaction, new: Drawn, lineage: Lineage
) -> tuple[Drawn, dict[str, Any]]:
    """What is stored, in the project of the episode it was drawn from, and where it comes from."""
    if new.source_episode_id is None:
        return new, trust.provenance(new, lineage)
    source = await episodes.get_source(tx, id=new.source_episode_id)
    if source is None:
        raise NotFound(
            f"source_episode_id: episode {new.source_episode_id} does not exist; leave it out"
        )
    said = trust.provenance(new, lineage, source)
    return replace(new, scope=of_source(new.scope, source["butler"])), said


def _row(
    memory_id: UUID, new: New, embedding: Embedding, now: datetime, said: dict[str, Any]
) -> dict[str, Any]:
    """A new memory as its row: what a caller may say of it has columns of the same names."""
    columns = asdict(new)
    del columns["doubt"]
    return {
        **columns,
        **said,
        "id": memory_id,
        "embedding": embedding.vector,
        "embedding_version_id": embedding.version_id,
        "searchable": prepared(preprocess_text(new.searchable_text)),
        "now": now,
    }


def _why(said: dict[str, Any]) -> dict[str, Any]:
    """What an event tells of a memory that was not stated, or is held."""
    told = {"origin": said["origin"], "trust": said["trust"]} if trust.is_lesser(said) else {}
    return told | ({"quarantined": said["quarantined"]} if said["quarantined"] else {})


def _waits(said: dict[str, Any]) -> str | None:
    held = said["quarantined"]
    instead = "; how to behave is stored as a rule" if held == DEMAND else ""
    return f"a person's yes, in quarantine: {held}{instead}" if held else None


async def _known_episode(tx: Transaction, new: NewEpisode) -> StoredEpisode:
    found = await episodes.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    if found is None:
        raise IntegrityViolation("the episode with this idempotency key vanished; try again")
    return StoredEpisode(found["id"], found["expires_at"])


async def _known_fact(tx: Transaction, new: NewFact) -> StoredFact | None:
    """What was stored under this idempotency key before, once nobody else is storing it."""
    if new.idempotency_key is None:
        return None
    # Only the first of several writers at once supersedes anything.
    await facts.hold_idempotency_keys(tx, new.idempotency_key)
    found = await facts.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    return StoredFact(found["id"], found["supersedes_id"]) if found else None


async def _known_rule(tx: Transaction, new: NewRule) -> StoredRule:
    found = await rules.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    if found is None:
        raise IntegrityViolation("the rule with this idempotency key vanished; try again")
    return StoredRule(found["id"])


def _fact_created(
    fact_id: UUID, new: NewFact, replaced: UUID | None, said: dict[str, Any]
) -> Event:
    payload = {
        "to": "quarantined" if said["quarantined"] else "active",
        "subject": new.subject,
        "predicate": new.predicate,
        "scope": new.scope,
        "permanence": new.permanence,
        "supersedes": str(replaced) if replaced else None,
        **_source(new),
        **_why(said),
    }
    return Event(EventType.FACT_CREATED, EventSubject.FACT, fact_id, payload)


def _source(new: NewFact | NewRule) -> dict[str, Any]:
    episode = new.source_episode_id
    return {"source_butler": new.source_butler, "source_episode_id": episode and str(episode)}
