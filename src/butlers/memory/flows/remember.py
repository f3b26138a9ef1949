"""Storing memories: cleaned and embedded first, then one transaction with its events."""

from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.errors import NotFound
from butlers.kernel.text import preprocess_text
from butlers.kernel.words import prepared
from butlers.memory.flows import links as linkage
from butlers.memory.flows.conflict_detection import know_predicates, look_in
from butlers.memory.flows.entity_linking import anchored
from butlers.memory.flows.fact_windows import (
    close_overlapping,
    columns,
    find_placement,
    in_time,
    record_closed,
    stated_window,
    stronger,
    window_of,
)
from butlers.memory.flows.idempotency import known_episode, known_fact, known_rule
from butlers.memory.flows.proposing import let_fact_wait
from butlers.memory.flows.restated import (
    confirm_instead,
    inherit_history,
    merged_with,
    only_confirms,
)
from butlers.memory.flows.results import StoredEpisode, StoredFact, StoredRule, with_doubts
from butlers.memory.handle import Embedding, Memory
from butlers.memory.model import (
    Event,
    EventSubject,
    EventType,
    Lineage,
    MemoryRef,
    MemoryType,
    New,
    NewEpisode,
    NewFact,
    NewRule,
)
from butlers.memory.policy import confidence, trust
from butlers.memory.policy.attachments import (
    checked_episode,
    checked_fact,
    checked_rule,
    masked_between,
)
from butlers.memory.policy.scopes import of_source
from butlers.memory.policy.suspicion import DEMAND
from butlers.memory.policy.validity import Placement
from butlers.memory.store import episodes, facts, rules
from butlers.memory.store.facts import FactKey
from butlers.memory.write_rate import FLOOD

Drawn = TypeVar("Drawn", NewFact, NewRule)
T = TypeVar("T", bound=New)


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
        return await known_episode(tx, new)
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
        stored = await with_doubts(memory, tx, stored)
    return replace(stored, masked=masked_between(given, new))


async def store_fact_in(
    memory: Memory, tx: Transaction, new: NewFact, embedding: Embedding, lineage: Lineage
) -> StoredFact:
    """Store a checked and embedded fact inside a transaction that may hold more."""
    known = await known_fact(tx, new)
    if known is not None:
        return known
    new, said = await _with_its_source(tx, new, lineage)
    new, identity = await anchored(memory, tx, new, said, lineage)
    stored = await _store_anchored(memory, tx, new, embedding, lineage, said)
    return replace(stored, identity=identity)


async def _store_anchored(  # noqa: PLR0913 - as above, and what is known of where it comes from
    memory: Memory,
    tx: Transaction,
    new: NewFact,
    embedding: Embedding,
    lineage: Lineage,
    said: dict[str, Any],
) -> StoredFact:
    if said["quarantined"]:
        place = Placement(window_of(new))
        return await insert_fact(memory, tx, new, embedding, lineage, said, place)
    await facts.hold_keys(tx, FactKey.of(new))
    new = await in_time(tx, new, memory.now())
    place = await find_placement(tx, new, memory.now())
    holder = stronger(place, said["trust"])
    if holder is not None:
        waiting = await let_fact_wait(memory, tx, new, holder.id, lineage)
        return StoredFact(waiting.id, None, waiting.why)
    if place.same is None:
        return await insert_fact(memory, tx, new, embedding, lineage, said, place)
    return await _store_again(memory, tx, new, embedding, lineage, said, place)


async def _store_again(  # noqa: PLR0913 - as below
    memory: Memory,
    tx: Transaction,
    new: NewFact,
    embedding: Embedding,
    lineage: Lineage,
    said: dict[str, Any],
    place: Placement,
) -> StoredFact:
    """Store what the fact that holds says already: nothing of that one is lost."""
    before = (await facts.find(tx, ids=[place.same], now=memory.now()))[0]
    if memory.settings.facts.same_again == "confirm" and only_confirms(new, before, place):
        await confirm_instead(memory, tx, before["id"], new, lineage)
        return StoredFact(before["id"], None, confirmed=True)
    told = merged_with(new, before)
    stored = await insert_fact(memory, tx, told, embedding, lineage, said, place)
    await inherit_history(memory, tx, before, stored.id, lineage)
    return replace(stored, confirmed=True)


async def insert_fact(  # noqa: PLR0913 - as above, and what is known of where it comes from
    memory: Memory,
    tx: Transaction,
    new: NewFact,
    embedding: Embedding,
    lineage: Lineage,
    said: dict[str, Any],
    place: Placement,
    confirmed_at: datetime | None = None,
) -> StoredFact:
    """Insert a fact in its place: what is told of its key makes room."""
    now, fact_id, replaced = memory.now(), memory.new_id(), place.replaced
    told = {} if window_of(new).is_open else columns(place.window)
    new = replace(new, **columns(place.window))
    await close_overlapping(tx, place)
    row = _row(fact_id, new, embedding, now, said)
    more = {"supersedes_id": replaced, "decay_rate": confidence.DECAY_RATES[new.permanence]}
    await facts.insert(tx, confirmed_at=confirmed_at or now, **more, **row)
    await memory.record(tx, _fact_created(fact_id, new, place, said), lineage, now)
    await record_closed(memory, tx, fact_id, place, lineage)
    fact = MemoryRef(MemoryType.FACT, fact_id)
    await linkage.rest_in(memory, tx, fact, new.depends_on, lineage)
    found = () if said["quarantined"] else await look_in(memory, tx, fact_id, new, lineage)
    return StoredFact(fact_id, replaced, _waits(said), conflicts=found, **told)


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
        return await known_rule(tx, new)
    payload = {"to": "candidate", "scope": new.scope, **_source(new), **_why(said)}
    event = Event(EventType.RULE_CREATED, EventSubject.RULE, rule_id, payload)
    await memory.record(tx, event, lineage, now)
    rule = MemoryRef(MemoryType.RULE, rule_id)
    await linkage.rest_in(memory, tx, rule, new.depends_on, lineage)
    return StoredRule(rule_id, _waits(said))


def paced(memory: Memory, new: T, lineage: Lineage) -> T:
    """What is stored, doubted where it comes in a flood."""
    settings, now = memory.settings.quarantine, memory.now()
    most = settings.max_writes_per_minute if settings.enabled else 0
    return replace(new, doubt=FLOOD) if memory.pace.is_flood(lineage, most, now) else new


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
    columns.pop("depends_on", None)
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


def _fact_created(fact_id: UUID, new: NewFact, place: Placement, said: dict[str, Any]) -> Event:
    payload = {
        "to": "quarantined" if said["quarantined"] else "active",
        "subject": new.subject,
        "predicate": new.predicate,
        "scope": new.scope,
        "permanence": new.permanence,
        "supersedes": str(place.replaced) if place.replaced else None,
        **({"entity_id": str(new.entity_id)} if new.entity_id else {}),
        **_source(new),
        **stated_window(place.window),
        **_why(said),
    }
    return Event(EventType.FACT_CREATED, EventSubject.FACT, fact_id, payload)


def _source(new: NewFact | NewRule) -> dict[str, Any]:
    episode = new.source_episode_id
    return {"source_butler": new.source_butler, "source_episode_id": episode and str(episode)}
