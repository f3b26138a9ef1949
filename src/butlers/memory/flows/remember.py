"""Storing memories: cleaned and embedded first, then one transaction with its events."""

from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from butlers.errors import NotFound
from butlers.kernel.text import preprocess_text
from butlers.kernel.words import prepared
from butlers.memory import limits
from butlers.memory.flows import links as linkage
from butlers.memory.flows.conflict_detection import detect_conflicts, embed_predicates
from butlers.memory.flows.entity_linking import anchored
from butlers.memory.flows.fact_windows import (
    close_overlapping,
    columns,
    confirm_by,
    find_placement,
    in_time,
    inherit_history,
    merged_with,
    only_confirms,
    record_closed,
    stated_window,
    stronger,
    window_of,
)
from butlers.memory.flows.proposals import let_fact_wait
from butlers.memory.flows.results import (
    StoredEpisode,
    StoredFact,
    StoredRule,
    known_episode,
    known_fact,
    known_rule,
    with_doubts,
)
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    Event,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
    New,
    NewEpisode,
    NewFact,
    NewRule,
    Provenance,
    Trust,
)
from butlers.memory.policy import confidence, trust
from butlers.memory.policy.attachments import checked_new, masked_between
from butlers.memory.policy.scopes import of_source
from butlers.memory.policy.suspicion import DEMAND
from butlers.memory.policy.validity import Placement
from butlers.memory.records import stored_values
from butlers.memory.store import episodes, facts, rules
from butlers.memory.store.facts import FactKey
from butlers.memory.write_rate import FLOOD

Drawn = TypeVar("Drawn", NewFact, NewRule)
T = TypeVar("T", bound=New)


async def store_episode(memory: Memory, new: NewEpisode, lineage: Lineage) -> StoredEpisode:
    """Store what happened; it expires after the configured days."""
    given, new = new, paced(memory, checked_new(new, memory.settings), lineage)
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.begin(lineage) as work:
        stored = await store_episode_in(work, new, embedding)
    return replace(stored, masked=masked_between(given, new))


async def store_episode_in(
    work: UnitOfWork, new: NewEpisode, embedding: Embedding, told: dict[str, Any] | None = None
) -> StoredEpisode:
    """Store a checked and embedded episode inside a transaction that may hold more."""
    now, episode_id = work.now, work.new_id()
    expires_at = now + timedelta(days=work.settings.episodes.default_ttl_days)
    provenance = trust.provenance(new, work.lineage)
    row = _row(episode_id, new, embedding, now, provenance)
    if await episodes.insert(work.tx, expires_at=expires_at, **row) is None:
        return await known_episode(work.tx, new)
    payload = {"to": "pending", "butler": new.butler, "importance": new.importance, **(told or {})}
    event = Event(EventType.EPISODE_CREATED, episode_id, payload | _why(provenance))
    await work.record(event, now)
    return StoredEpisode(episode_id, expires_at, _waits(provenance))


async def store_fact(memory: Memory, new: NewFact, lineage: Lineage) -> StoredFact:
    """Store what is true; an active fact with the same key is superseded by it."""
    given, new = new, paced(memory, checked_new(new, memory.settings), lineage)
    embedding = await memory.embed(new.searchable_text, lineage)
    await embed_predicates(memory, [new], lineage)
    async with memory.begin(lineage) as work:
        stored = await store_fact_in(work, new, embedding)
        stored = await with_doubts(work, stored)
    return replace(stored, masked=masked_between(given, new))


async def store_fact_in(work: UnitOfWork, new: NewFact, embedding: Embedding) -> StoredFact:
    """Store a checked and embedded fact inside a transaction that may hold more."""
    known = await known_fact(work.tx, new)
    if known is not None:
        return known
    new, provenance = await _with_its_source(work, new)
    new, identity = await anchored(work, new, provenance)
    stored = await _store_anchored(work, new, embedding, provenance)
    return replace(stored, identity=identity)


async def _store_anchored(
    work: UnitOfWork, new: NewFact, embedding: Embedding, provenance: Provenance
) -> StoredFact:
    if provenance.quarantined:
        place = Placement(window_of(new))
        return await insert_fact(work, new, embedding, provenance, place)
    await facts.hold_keys(work.tx, FactKey.of(new))
    new = await in_time(work.tx, new, work.now)
    place = await find_placement(work.tx, new, work.now)
    holder = stronger(place, provenance.trust)
    if holder is not None:
        waiting = await let_fact_wait(work, new, holder.id)
        return StoredFact(waiting.id, None, waiting.why)
    if place.same is None:
        return await insert_fact(work, new, embedding, provenance, place)
    return await _store_again(work, new, embedding, provenance, place)


async def _store_again(
    work: UnitOfWork, new: NewFact, embedding: Embedding, provenance: Provenance, place: Placement
) -> StoredFact:
    """Store what the fact that holds says already: nothing of that one is lost."""
    before = (await facts.find(work.tx, ids=[place.same], now=work.now))[0]
    if work.settings.facts.same_again == "confirm" and only_confirms(new, before, place):
        sources = [new.source_episode_id] if new.source_episode_id else []
        await confirm_by(work, MemoryRef(MemoryType.FACT, before["id"]), sources)
        return StoredFact(before["id"], None, confirmed=True)
    told = merged_with(new, before)
    stored = await insert_fact(work, told, embedding, provenance, place)
    await inherit_history(work, before, stored.id)
    return replace(stored, confirmed=True)


async def insert_fact(
    work: UnitOfWork,
    new: NewFact,
    embedding: Embedding,
    provenance: Provenance,
    place: Placement,
    confirmed_at: datetime | None = None,
) -> StoredFact:
    """Insert a fact in its place: what is told of its key makes room."""
    now, fact_id, replaced = work.now, work.new_id(), place.replaced
    told = {} if window_of(new).is_open else columns(place.window)
    new = replace(new, **columns(place.window))
    await close_overlapping(work.tx, place)
    row = _row(fact_id, new, embedding, now, provenance)
    more = {"supersedes_id": replaced, "decay_rate": confidence.DECAY_RATES[new.permanence]}
    await facts.insert(work.tx, confirmed_at=confirmed_at or now, **more, **row)
    await work.record(_fact_created(fact_id, new, place, provenance), now)
    await record_closed(work, fact_id, place)
    fact = MemoryRef(MemoryType.FACT, fact_id)
    await linkage.rest_in(work, fact, new.depends_on)
    found = () if provenance.quarantined else await detect_conflicts(work, fact_id, new)
    return StoredFact(fact_id, replaced, _waits(provenance), conflicts=found, **told)


async def store_rule(memory: Memory, new: NewRule, lineage: Lineage) -> StoredRule:
    """Store how to behave; every rule starts as a candidate."""
    given, new = new, paced(memory, checked_new(new, memory.settings), lineage)
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.begin(lineage) as work:
        stored = await store_rule_in(work, new, embedding)
    return replace(stored, masked=masked_between(given, new))


async def store_rule_in(work: UnitOfWork, new: NewRule, embedding: Embedding) -> StoredRule:
    """Store a checked and embedded rule inside a transaction that may hold more."""
    new, provenance = await _with_its_source(work, new)
    now, rule_id = work.now, work.new_id()
    decay = {"confidence": confidence.RULE_CONFIDENCE, "decay_rate": confidence.RULE_DECAY_RATE}
    if not await rules.insert(work.tx, **decay, **_row(rule_id, new, embedding, now, provenance)):
        return await known_rule(work.tx, new)
    payload = {"to": "candidate", "scope": new.scope, **_source(new), **_why(provenance)}
    event = Event(EventType.RULE_CREATED, rule_id, payload)
    await work.record(event, now)
    rule = MemoryRef(MemoryType.RULE, rule_id)
    await linkage.rest_in(work, rule, new.depends_on)
    return StoredRule(rule_id, _waits(provenance))


def paced(memory: Memory, new: T, lineage: Lineage) -> T:
    """What is stored, doubted where it comes in a flood."""
    most = limits.MAX_WRITES_PER_MINUTE if memory.settings.quarantine.enabled else 0
    return replace(new, doubt=FLOOD) if memory.pace.is_flood(lineage, most, memory.now()) else new


async def _with_its_source(work: UnitOfWork, new: Drawn) -> tuple[Drawn, Provenance]:
    """What is stored, in the project of the episode it was drawn from, and where it comes from."""
    if new.source_episode_id is None:
        return new, trust.provenance(new, work.lineage)
    source = await episodes.get_source(work.tx, id=new.source_episode_id)
    if source is None:
        raise NotFound(
            f"source_episode_id: episode {new.source_episode_id} does not exist; leave it out"
        )
    provenance = trust.provenance(new, work.lineage, source)
    return replace(new, scope=of_source(new.scope, source["butler"])), provenance


def _row(
    memory_id: UUID, new: New, embedding: Embedding, now: datetime, provenance: Provenance
) -> dict[str, Any]:
    """What storing writes into the columns of a new memory."""
    return {
        **stored_values(new),
        **asdict(provenance),
        "id": memory_id,
        "embedding": embedding.vector,
        "embedding_version_id": embedding.version_id,
        "searchable": prepared(preprocess_text(new.searchable_text)),
        "now": now,
    }


def _why(provenance: Provenance) -> dict[str, Any]:
    """What an event tells of a memory that was not stated, or is held."""
    told: dict[str, Any] = {}
    if provenance.trust < Trust.STATED:
        told = {"origin": provenance.origin, "trust": provenance.trust}
    return told | ({"quarantined": provenance.quarantined} if provenance.quarantined else {})


def _waits(provenance: Provenance) -> str | None:
    held = provenance.quarantined
    instead = "; how to behave is stored as a rule" if held == DEMAND else ""
    return f"a person's yes, in quarantine: {held}{instead}" if held else None


def _fact_created(fact_id: UUID, new: NewFact, place: Placement, provenance: Provenance) -> Event:
    payload = {
        "to": "quarantined" if provenance.quarantined else "active",
        "subject": new.subject,
        "predicate": new.predicate,
        "scope": new.scope,
        "permanence": new.permanence,
        "supersedes": str(place.replaced) if place.replaced else None,
        **({"entity_id": str(new.entity_id)} if new.entity_id else {}),
        **_source(new),
        **stated_window(place.window),
        **_why(provenance),
    }
    return Event(EventType.FACT_CREATED, fact_id, payload)


def _source(new: NewFact | NewRule) -> dict[str, Any]:
    episode = new.source_episode_id
    return {"source_butler": new.source_butler, "source_episode_id": episode and str(episode)}
