"""Store memories: check, embed, then write the row and its events in one transaction."""

from collections import deque
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar, assert_never
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import NotFound
from butlers.memory import limits
from butlers.memory.flows import links as linkage
from butlers.memory.flows.conflict_detection import detect_conflicts, embed_predicates
from butlers.memory.flows.doubts import find_in_doubt
from butlers.memory.flows.entity_linking import link_entity
from butlers.memory.flows.fact_windows import (
    close_overlapping,
    confirm_by,
    find_placement,
    inherit_history,
    merged_with,
    more_trusted,
    only_confirms,
    record_closed,
    stated_window,
    window_of,
    with_window,
)
from butlers.memory.flows.memory_checks import checked
from butlers.memory.flows.proposals import propose_fact
from butlers.memory.flows.provenance import (
    Sourced,
    link_repeated,
    provenance_of,
    provenance_payload,
)
from butlers.memory.flows.results import (
    Stored,
    StoredEpisode,
    StoredFact,
    StoredRule,
    known_fact,
    known_row,
    waits_for,
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
    Origin,
    Provenance,
    Trust,
)
from butlers.memory.policy import trust
from butlers.memory.policy.confidence import LOW_TRUST_DAYS, RULE_CONFIDENCE, decay_rate
from butlers.memory.policy.inputs import masked_between
from butlers.memory.policy.scopes import of_source
from butlers.memory.policy.validity import Placement
from butlers.memory.records import INPUT
from butlers.memory.store import episodes, facts, rules
from butlers.memory.store.facts import FactKey

FLOOD = "a flood from one source"
Derived = TypeVar("Derived", NewFact, NewRule)
T = TypeVar("T", bound=New)


async def store_episode(memory: Memory, new: NewEpisode, lineage: Lineage) -> StoredEpisode:
    """Store an episode; it expires after the configured days. Records `episode_created`."""
    given, new = new, rate_checked(memory, await checked(memory, new), lineage)
    [embedding] = await memory.embed([new.searchable_text], lineage)
    async with memory.begin(lineage) as work:
        stored = await store_episode_in(work, new, embedding)
    return replace(stored, masked=masked_between(given, new))


async def store_episode_in(
    work: UnitOfWork, new: NewEpisode, embedding: Embedding, more: dict[str, Any] | None = None
) -> StoredEpisode:
    """Store a checked and embedded episode in a transaction; `more` goes into its event."""
    stored, payload, sourced = await insert_episode(work, new, embedding, now := work.now)
    if payload:
        await work.record(Event(EventType.EPISODE_CREATED, stored.id, payload | (more or {})), now)
        await link_repeated(work, stored.ref, sourced)
    return stored


async def insert_episode(
    work: UnitOfWork, new: NewEpisode, embedding: Embedding, now: datetime
) -> tuple[StoredEpisode, dict[str, Any], Sourced]:
    """Insert an episode; return what its event has to say, nothing if it was known, and of whom."""
    episode_id, sourced = work.memory.new_id(), await provenance_of(work, new, embedding)
    days = limits.PIECE_DAYS if new.piece else work.settings.episodes.default_ttl_days
    provenance = sourced.provenance
    if provenance.trust is Trust.LOW:
        days = min(days, LOW_TRUST_DAYS)
    expires_at = now + timedelta(days=days)
    row = _row(episode_id, new, embedding, now, provenance)
    if await episodes.insert(work.tx, expires_at=expires_at, **row) is None:
        known = await known_row(work.tx, new)
        return StoredEpisode(known["id"], known["expires_at"]), {}, sourced
    kind = {"piece": new.piece, "to": "consolidated"} if new.piece else {"to": "pending"}
    payload = {**kind, "butler": new.butler, "importance": new.importance}
    payload |= provenance_payload(new, provenance)
    waits = waits_for(provenance.quarantined)
    return StoredEpisode(episode_id, expires_at, waits), payload, sourced


async def store_fact(memory: Memory, new: NewFact, lineage: Lineage) -> StoredFact:
    """Store a fact; it supersedes the current fact of its key, and inherits what it repeats.

    Where that fact is more trusted, a proposal waits instead. Locks the names and the key.
    Records `fact_created`, and the events of what it supersedes, bounds, links and conflicts with.
    """
    given, new = new, rate_checked(memory, await checked(memory, new), lineage)
    [embedding] = await memory.embed([new.searchable_text], lineage)
    await embed_predicates(memory, [new], lineage)
    async with memory.begin(lineage) as work:
        stored = await store_fact_in(work, new, embedding)
        if before := stored.superseded_id:
            doubts = await find_in_doubt(work, [MemoryRef(MemoryType.FACT, before)])
            stored = replace(stored, in_doubt=doubts)
    return replace(stored, masked=masked_between(given, new))


async def store_fact_in(work: UnitOfWork, new: NewFact, embedding: Embedding) -> StoredFact:
    """Store a checked and embedded fact in a transaction."""
    if (key := new.idempotency_key) is not None and (known := await known_fact(work.tx, key)):
        return known
    source = None
    if new.source_episode_id is not None:
        new, source = await _with_source(work.tx, new, new.source_episode_id)
    sourced = await provenance_of(work, new, embedding, source)
    new, identity = await link_entity(work, new, sourced.provenance)
    stored = await _store_linked(work, new, embedding, sourced.provenance, identity.is_first)
    await link_repeated(work, stored.ref, sourced)
    return replace(stored, identity=identity)


async def _store_linked(
    work: UnitOfWork, new: NewFact, embedding: Embedding, provenance: Provenance, is_first: bool
) -> StoredFact:
    if provenance.quarantined:
        return await insert_fact(work, new, embedding, provenance, Placement(window_of(new)))
    await facts.hold_keys(work.tx, FactKey.of(new))
    new = await with_window(work.tx, new, work.now)
    place = await find_placement(work.tx, new, work.now, is_first=is_first)
    holder = more_trusted(place, provenance.trust) if place.changes else None
    if holder is not None:
        waiting = await propose_fact(work, new, holder.id)
        return StoredFact(waiting.id, None, waiting.why)
    if place.same is None:
        return await insert_fact(work, new, embedding, provenance, place)
    return await _restate(work, new, embedding, provenance, place)


async def _restate(
    work: UnitOfWork, new: NewFact, embedding: Embedding, provenance: Provenance, place: Placement
) -> StoredFact:
    """Supersede a fact that says the same and inherit, or confirm it; low trust prolongs none."""
    [before] = await facts.find(work.tx, ids=[place.same], now=work.now)
    may_confirm = work.settings.facts.same_again == "confirm" and before["trust"] > Trust.LOW
    if may_confirm and only_confirms(new, before, place):
        sources = [new.source_episode_id] if new.source_episode_id else []
        await confirm_by(work, MemoryRef(MemoryType.FACT, before["id"]), sources)
        return StoredFact(before["id"], None, confirmed=True)
    at = before["last_confirmed_at"] if provenance.trust is Trust.LOW else work.now
    provenance = trust.restating(provenance, before)
    stored = await insert_fact(work, merged_with(new, before), embedding, provenance, place, at)
    await inherit_history(work, before, stored.id, at)
    return replace(stored, confirmed=provenance.trust > Trust.LOW)


async def insert_fact(
    work: UnitOfWork,
    new: NewFact,
    embedding: Embedding,
    provenance: Provenance,
    place: Placement,
    confirmed_at: datetime | None = None,
) -> StoredFact:
    """Insert a fact at its place, after closing what it overlaps; then look for conflicts."""
    now, fact_id, replaced = work.now, work.memory.new_id(), place.replaced
    window = asdict(place.window)
    shown = window if new.valid_from or new.valid_to else {}
    new = replace(new, permanence=trust.kept_for(new.permanence, provenance.trust), **window)
    if place.changes:
        await close_overlapping(work.tx, place)
    row = _row(fact_id, new, embedding, now, provenance)
    more = {"supersedes_id": replaced, "decay_rate": decay_rate(new.permanence, provenance.trust)}
    await facts.insert(work.tx, confirmed_at=confirmed_at or now, **more, **row)
    await work.record(_fact_created(fact_id, new, place, provenance), now)
    if place.changes:
        await record_closed(work, fact_id, place)
    if new.depends_on:
        await linkage.depend_in(work, MemoryRef(MemoryType.FACT, fact_id), new.depends_on)
    if provenance.quarantined:
        return StoredFact(fact_id, replaced, waits_for(provenance.quarantined), **shown)
    conflicts = () if place.is_first else await detect_conflicts(work, fact_id, new)
    return StoredFact(fact_id, replaced, conflicts=conflicts, **shown)


async def store_rule(memory: Memory, new: NewRule, lineage: Lineage) -> StoredRule:
    """Store a rule, which starts as a candidate. Records `rule_created`."""
    given, new = new, rate_checked(memory, await checked(memory, new), lineage)
    [embedding] = await memory.embed([new.searchable_text], lineage)
    async with memory.begin(lineage) as work:
        return replace(await store_rule_in(work, new, embedding), masked=masked_between(given, new))


async def store_rule_in(work: UnitOfWork, new: NewRule, embedding: Embedding) -> StoredRule:
    """Store a checked and embedded rule in a transaction."""
    source = None
    if new.source_episode_id is not None:
        new, source = await _with_source(work.tx, new, new.source_episode_id)
    sourced = await provenance_of(work, new, embedding, source)
    provenance, now, rule_id = sourced.provenance, work.now, work.memory.new_id()
    decay = {"confidence": RULE_CONFIDENCE, "decay_rate": decay_rate(None, provenance.trust)}
    if not await rules.insert(work.tx, **decay, **_row(rule_id, new, embedding, now, provenance)):
        return StoredRule((await known_row(work.tx, new))["id"])
    payload = {"to": "candidate", "scope": new.scope, **provenance_payload(new, provenance)}
    await work.record(Event(EventType.RULE_CREATED, rule_id, payload), now)
    await link_repeated(work, MemoryRef(MemoryType.RULE, rule_id), sourced)
    await linkage.depend_in(work, MemoryRef(MemoryType.RULE, rule_id), new.depends_on)
    return StoredRule(rule_id, waits_for(provenance.quarantined))


async def store_in(work: UnitOfWork, new: New, embedding: Embedding) -> Stored:
    """Store a checked and embedded memory of any type in a transaction."""
    match new:
        case NewEpisode():
            return await store_episode_in(work, new, embedding)
        case NewFact():
            return await store_fact_in(work, new, embedding)
        case NewRule():
            return await store_rule_in(work, new, embedding)
        case _:
            assert_never(new)


def rate_checked(memory: Memory, new: T, lineage: Lineage) -> T:
    """Mark a memory as doubtful if its token stores more a minute than the rate limit allows."""
    most = limits.MAX_WRITES_PER_MINUTE if memory.settings.quarantine.enabled else 0
    if not most or lineage.origin is not Origin.AGENT or not lineage.actor.startswith("token:"):
        return new
    token, now = f"{lineage.tenant_id}\x1f{lineage.actor}", memory.now()
    recent = memory.recent_writes.get(token) or deque()
    while recent and now - recent[0] >= timedelta(minutes=1):
        recent.popleft()
    recent.append(now)
    memory.recent_writes.set(token, recent)
    return replace(new, doubt=FLOOD) if len(recent) > most else new


async def _with_source(tx: Transaction, new: Derived, episode_id: UUID) -> tuple[Derived, Row]:
    """Return a memory in the scope of its source episode, and that episode."""
    source = await episodes.get_source(tx, id=episode_id)
    if source is None:
        raise NotFound(f"source_episode_id: episode {episode_id} does not exist; leave it out")
    return replace(new, scope=of_source(new.scope, source["butler"])), source


def _row(
    memory_id: UUID, new: New, embedding: Embedding, now: datetime, provenance: Provenance
) -> dict[str, Any]:
    """Return the columns of a new memory."""
    columns = INPUT[type(new)]
    return {
        **{name: value for name, value in asdict(new).items() if columns[name].is_stored},
        **asdict(provenance),
        **embedding.columns(new.searchable_text),
        "id": memory_id,
        "now": now,
    }


def _fact_created(fact_id: UUID, new: NewFact, place: Placement, provenance: Provenance) -> Event:
    payload = {
        "to": "quarantined" if provenance.quarantined else "active",
        "subject": new.subject,
        "predicate": new.predicate,
        "scope": new.scope,
        "permanence": new.permanence,
        "supersedes": str(place.replaced) if place.replaced else None,
        **({"entity_id": str(new.entity_id)} if new.entity_id else {}),
        **stated_window(place.window),
        **provenance_payload(new, provenance),
    }
    return Event(EventType.FACT_CREATED, fact_id, payload)
