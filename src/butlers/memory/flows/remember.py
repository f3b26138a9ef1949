"""Storing memories: cleaned and embedded first, then one transaction with its events."""

from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

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
    async with memory.begin(lineage) as work:
        stored = await store_episode_in(work, new, embedding)
    return replace(stored, masked=masked_between(given, new))


async def store_episode_in(
    work: UnitOfWork, new: NewEpisode, embedding: Embedding, told: dict[str, Any] | None = None
) -> StoredEpisode:
    """Store a checked and embedded episode inside a transaction that may hold more."""
    now, episode_id = work.now, work.new_id()
    expires_at = now + timedelta(days=work.settings.episodes.default_ttl_days)
    said = trust.provenance(new, work.lineage)
    row = _row(episode_id, new, embedding, now, said)
    if await episodes.insert(work.tx, expires_at=expires_at, **row) is None:
        return await known_episode(work.tx, new)
    payload = {"to": "pending", "butler": new.butler, "importance": new.importance, **(told or {})}
    event = Event(EventType.EPISODE_CREATED, episode_id, payload | _why(said))
    await work.record(event, now)
    return StoredEpisode(episode_id, expires_at, _waits(said))


async def store_fact(memory: Memory, new: NewFact, lineage: Lineage) -> StoredFact:
    """Store what is true; an active fact with the same key is superseded by it."""
    given, new = new, paced(memory, checked_fact(new, memory.settings), lineage)
    embedding = await memory.embed(new.searchable_text, lineage)
    await know_predicates(memory, [new], lineage)
    async with memory.begin(lineage) as work:
        stored = await store_fact_in(work, new, embedding)
        stored = await with_doubts(work, stored)
    return replace(stored, masked=masked_between(given, new))


async def store_fact_in(work: UnitOfWork, new: NewFact, embedding: Embedding) -> StoredFact:
    """Store a checked and embedded fact inside a transaction that may hold more."""
    known = await known_fact(work.tx, new)
    if known is not None:
        return known
    new, said = await _with_its_source(work, new)
    new, identity = await anchored(work, new, said)
    stored = await _store_anchored(work, new, embedding, said)
    return replace(stored, identity=identity)


async def _store_anchored(
    work: UnitOfWork, new: NewFact, embedding: Embedding, said: dict[str, Any]
) -> StoredFact:
    if said["quarantined"]:
        place = Placement(window_of(new))
        return await insert_fact(work, new, embedding, said, place)
    await facts.hold_keys(work.tx, FactKey.of(new))
    new = await in_time(work.tx, new, work.now)
    place = await find_placement(work.tx, new, work.now)
    holder = stronger(place, said["trust"])
    if holder is not None:
        waiting = await let_fact_wait(work, new, holder.id)
        return StoredFact(waiting.id, None, waiting.why)
    if place.same is None:
        return await insert_fact(work, new, embedding, said, place)
    return await _store_again(work, new, embedding, said, place)


async def _store_again(
    work: UnitOfWork, new: NewFact, embedding: Embedding, said: dict[str, Any], place: Placement
) -> StoredFact:
    """Store what the fact that holds says already: nothing of that one is lost."""
    before = (await facts.find(work.tx, ids=[place.same], now=work.now))[0]
    if work.settings.facts.same_again == "confirm" and only_confirms(new, before, place):
        await confirm_instead(work, before["id"], new)
        return StoredFact(before["id"], None, confirmed=True)
    told = merged_with(new, before)
    stored = await insert_fact(work, told, embedding, said, place)
    await inherit_history(work, before, stored.id)
    return replace(stored, confirmed=True)


async def insert_fact(
    work: UnitOfWork,
    new: NewFact,
    embedding: Embedding,
    said: dict[str, Any],
    place: Placement,
    confirmed_at: datetime | None = None,
) -> StoredFact:
    """Insert a fact in its place: what is told of its key makes room."""
    now, fact_id, replaced = work.now, work.new_id(), place.replaced
    told = {} if window_of(new).is_open else columns(place.window)
    new = replace(new, **columns(place.window))
    await close_overlapping(work.tx, place)
    row = _row(fact_id, new, embedding, now, said)
    more = {"supersedes_id": replaced, "decay_rate": confidence.DECAY_RATES[new.permanence]}
    await facts.insert(work.tx, confirmed_at=confirmed_at or now, **more, **row)
    await work.record(_fact_created(fact_id, new, place, said), now)
    await record_closed(work, fact_id, place)
    fact = MemoryRef(MemoryType.FACT, fact_id)
    await linkage.rest_in(work, fact, new.depends_on)
    found = () if said["quarantined"] else await look_in(work, fact_id, new)
    return StoredFact(fact_id, replaced, _waits(said), conflicts=found, **told)


async def store_rule(memory: Memory, new: NewRule, lineage: Lineage) -> StoredRule:
    """Store how to behave; every rule starts as a candidate."""
    given, new = new, paced(memory, checked_rule(new, memory.settings), lineage)
    embedding = await memory.embed(new.searchable_text, lineage)
    async with memory.begin(lineage) as work:
        stored = await store_rule_in(work, new, embedding)
    return replace(stored, masked=masked_between(given, new))


async def store_rule_in(work: UnitOfWork, new: NewRule, embedding: Embedding) -> StoredRule:
    """Store a checked and embedded rule inside a transaction that may hold more."""
    new, said = await _with_its_source(work, new)
    now, rule_id = work.now, work.new_id()
    decay = {"confidence": confidence.RULE_CONFIDENCE, "decay_rate": confidence.RULE_DECAY_RATE}
    if not await rules.insert(work.tx, **decay, **_row(rule_id, new, embedding, now, said)):
        return await known_rule(work.tx, new)
    payload = {"to": "candidate", "scope": new.scope, **_source(new), **_why(said)}
    event = Event(EventType.RULE_CREATED, rule_id, payload)
    await work.record(event, now)
    rule = MemoryRef(MemoryType.RULE, rule_id)
    await linkage.rest_in(work, rule, new.depends_on)
    return StoredRule(rule_id, _waits(said))


def paced(memory: Memory, new: T, lineage: Lineage) -> T:
    """What is stored, doubted where it comes in a flood."""
    settings, now = memory.settings.quarantine, memory.now()
    most = settings.max_writes_per_minute if settings.enabled else 0
    return replace(new, doubt=FLOOD) if memory.pace.is_flood(lineage, most, now) else new


async def _with_its_source(work: UnitOfWork, new: Drawn) -> tuple[Drawn, dict[str, Any]]:
    """What is stored, in the project of the episode it was drawn from, and where it comes from."""
    if new.source_episode_id is None:
        return new, trust.provenance(new, work.lineage)
    source = await episodes.get_source(work.tx, id=new.source_episode_id)
    if source is None:
        raise NotFound(
            f"source_episode_id: episode {new.source_episode_id} does not exist; leave it out"
        )
    said = trust.provenance(new, work.lineage, source)
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
    return Event(EventType.FACT_CREATED, fact_id, payload)


def _source(new: NewFact | NewRule) -> dict[str, Any]:
    episode = new.source_episode_id
    return {"source_butler": new.source_butler, "source_episode_id": episode and str(episode)}
