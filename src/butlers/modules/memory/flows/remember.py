"""Storing memories: cleaned and embedded first, then one transaction with its events."""

from datetime import timedelta
from typing import Any

from butlers.db.postgres import Row, Transaction
from butlers.errors import IntegrityViolation
from butlers.kernel.text import preprocess_text
from butlers.modules.memory.flows.record import record
from butlers.modules.memory.memory import Embedding, Memory
from butlers.modules.memory.model import (
    Event,
    EventSubject,
    EventType,
    Lineage,
    Link,
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Relation,
    StoredEpisode,
    StoredFact,
    StoredRule,
)
from butlers.modules.memory.policy import confidence, inputs
from butlers.modules.memory.store import entities, episodes, facts, links, rules
from butlers.modules.memory.store.facts import FactKey


async def store_episode(memory: Memory, new: NewEpisode, lineage: Lineage) -> StoredEpisode:
    """Store what happened; it expires after the configured days."""
    new = inputs.checked_episode(new, memory.settings.episodes.max_content_chars)
    embedding = await memory.embed(new.searchable_text, lineage)
    now, episode_id = memory.now(), memory.new_id()
    expires_at = now + timedelta(days=memory.settings.episodes.default_ttl_days)
    async with memory.transaction(lineage) as tx:
        row = {
            "id": episode_id,
            "butler": new.butler,
            "session_id": new.session_id,
            "content": new.content,
            "importance": new.importance,
            "expires_at": expires_at,
            "now": now,
            **_common(new, embedding),
        }
        if await episodes.insert(tx, row) is None:
            return _known_episode(await _by_key(tx, new))
        await record(memory, tx, _episode_created(episode_id, new), lineage, now)
    return StoredEpisode(episode_id, expires_at)


async def store_fact(memory: Memory, new: NewFact, lineage: Lineage) -> StoredFact:
    """Store what is true; an active fact with the same key is superseded by it."""
    new = inputs.checked_fact(new, memory.settings.facts.max_content_chars)
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.transaction(lineage) as tx:
        return await store_fact_in(memory, tx, new, embedding, lineage)


async def store_fact_in(
    memory: Memory, tx: Transaction, new: NewFact, embedding: Embedding, lineage: Lineage
) -> StoredFact:
    """Store a checked and embedded fact inside a transaction that may hold more."""
    known = await _known_fact(tx, new)
    if known is not None:
        return known
    if new.entity_id is not None:
        await entities.hold_living(tx, new.entity_id)
    now, fact_id = memory.now(), memory.new_id()
    key = FactKey(new.scope, new.predicate, new.subject, new.entity_id)
    replaced = await facts.supersede_active(tx, key)
    await facts.insert(tx, _fact_row(fact_id, new, embedding, replaced, now))
    await record(memory, tx, _fact_created(fact_id, new, replaced), lineage, now)
    if replaced is not None:
        fact, old = MemoryRef(MemoryType.FACT, fact_id), MemoryRef(MemoryType.FACT, replaced)
        await links.insert(tx, Link(fact, Relation.SUPERSEDES, old), now)
        superseded = {"from": "active", "to": "superseded", "superseded_by": str(fact_id)}
        event = Event(EventType.FACT_SUPERSEDED, EventSubject.FACT, replaced, superseded)
        await record(memory, tx, event, lineage, now)
    return StoredFact(fact_id, replaced)


async def store_rule(memory: Memory, new: NewRule, lineage: Lineage) -> StoredRule:
    """Store how to behave; every rule starts as a candidate."""
    new = inputs.checked_rule(new, memory.settings.rules.max_content_chars)
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.transaction(lineage) as tx:
        return await store_rule_in(memory, tx, new, embedding, lineage)


async def store_rule_in(
    memory: Memory, tx: Transaction, new: NewRule, embedding: Embedding, lineage: Lineage
) -> StoredRule:
    """Store a checked and embedded rule inside a transaction that may hold more."""
    if new.idempotency_key is not None:
        known = await rules.get_by_idempotency_key(tx, new.idempotency_key)
        if known is not None:
            return StoredRule(known["id"])
    now, rule_id = memory.now(), memory.new_id()
    row = {
        "id": rule_id,
        "content": new.content,
        "scope": new.scope,
        "confidence": confidence.RULE_CONFIDENCE,
        "decay_rate": confidence.RULE_DECAY_RATE,
        "source_episode_id": new.source_episode_id,
        "source_butler": new.source_butler,
        "tags": list(new.tags),
        "now": now,
        **_common(new, embedding),
    }
    await rules.insert(tx, row)
    payload = {"to": "candidate", "scope": new.scope, **_source(new)}
    event = Event(EventType.RULE_CREATED, EventSubject.RULE, rule_id, payload)
    await record(memory, tx, event, lineage, now)
    return StoredRule(rule_id)


def _common(new: NewEpisode | NewFact | NewRule, embedding: Embedding) -> dict[str, Any]:
    """The columns that every kind of memory fills alike."""
    return {
        "embedding": embedding.vector,
        "embedding_version_id": embedding.version_id,
        "searchable": preprocess_text(new.searchable_text),
        "metadata": new.metadata,
        "idempotency_key": new.idempotency_key,
    }


def _fact_row(
    fact_id: Any, new: NewFact, embedding: Embedding, replaced: Any, now: Any
) -> dict[str, Any]:
    return {
        "id": fact_id,
        "subject": new.subject,
        "predicate": new.predicate,
        "content": new.content,
        "importance": new.importance,
        "decay_rate": confidence.decay_rate(new.permanence),
        "permanence": new.permanence,
        "source_butler": new.source_butler,
        "source_episode_id": new.source_episode_id,
        "supersedes_id": replaced,
        "entity_id": new.entity_id,
        "scope": new.scope,
        "tags": list(new.tags),
        "now": now,
        **_common(new, embedding),
    }


async def _by_key(tx: Transaction, new: NewEpisode) -> Row:
    found = await episodes.get_by_idempotency_key(tx, new.idempotency_key or "")
    if found is None:
        raise IntegrityViolation("the episode with this idempotency key vanished; try again")
    return found


def _known_episode(row: Row) -> StoredEpisode:
    return StoredEpisode(row["id"], row["expires_at"])


async def _known_fact(tx: Transaction, new: NewFact) -> StoredFact | None:
    if new.idempotency_key is None:
        return None
    found = await facts.get_by_idempotency_key(tx, new.idempotency_key)
    return StoredFact(found["id"], found["supersedes_id"]) if found else None


def _episode_created(episode_id: Any, new: NewEpisode) -> Event:
    payload = {"to": "pending", "butler": new.butler, "importance": new.importance}
    return Event(EventType.EPISODE_CREATED, EventSubject.EPISODE, episode_id, payload)


def _fact_created(fact_id: Any, new: NewFact, replaced: Any) -> Event:
    payload = {
        "to": "active",
        "subject": new.subject,
        "predicate": new.predicate,
        "scope": new.scope,
        "permanence": new.permanence,
        "supersedes": str(replaced) if replaced else None,
        **_source(new),
    }
    return Event(EventType.FACT_CREATED, EventSubject.FACT, fact_id, payload)


def _source(new: NewFact | NewRule) -> dict[str, Any]:
    episode = new.source_episode_id
    return {
        "source_butler": new.source_butler,
        "source_episode_id": str(episode) if episode else None,
    }
