"""Storing what a session leaves, part by part: an episode each, and what was stated in it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.errors import InvalidInput
from butlers.kernel.text import says_the_same
from butlers.memory.flows.entity_linking import hold_all
from butlers.memory.flows.links import derive_in, link_in
from butlers.memory.flows.remember import store_episode_in, store_fact_in, store_rule_in
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    Lineage,
    Link,
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Relation,
)
from butlers.memory.policy.attachments import checked_episode, checked_new
from butlers.memory.policy.inputs import MAX_PREDICATE
from butlers.memory.policy.suspicion import DEMAND
from butlers.memory.records import INPUT
from butlers.memory.store import episodes, facts, memories, rules
from butlers.memory.store.facts import FactKey
from butlers.memory.store.locks import lock_names

Candidate = NewFact | NewRule


@dataclass(frozen=True, slots=True)
class Part:
    """How far a session is stored: its last part, the place of that, through when it reaches."""

    episode_id: UUID
    place: int
    through: str


@dataclass(frozen=True, slots=True)
class NewPart:
    """The next part of a session, and the one it follows."""

    session: str
    after: Part | None
    through: str
    episode: NewEpisode
    candidates: Sequence[Candidate] = ()

    @property
    def place(self) -> int:
        """Where it stands among the parts."""
        return self.after.place + 1 if self.after else 0


async def last_part(memory: Memory, session: str, lineage: Lineage) -> Part | None:
    """The part of a session that was stored last, if any was."""
    async with memory.transaction(lineage) as tx:
        return await _last_part(tx, session)


async def store_part(memory: Memory, new: NewPart, lineage: Lineage) -> Part | None:
    """Store a part and what was stated in it, all or nothing; None where another came first.

    A candidate overrides nothing: where a fact or rule says the same it is not stored, and
    where a fact holds its key it is stored beside it.
    """
    episode = _heard(checked_episode(replace(new.episode, place=new.place), memory.settings))
    candidates = list(_storable(memory, new))
    texts = [one.searchable_text for one in (episode, *candidates)]
    vector, *vectors = await memory.embed_all(texts, lineage)
    # Whoever asks for the audit stream's lines of a session finds them by its key.
    lineage = replace(lineage, request_id=session_key(new.session))
    async with memory.begin(lineage) as work:
        await lock_names(work.tx, "session", new.session)
        if await _last_part(work.tx, new.session) != new.after:
            return None
        stored = await _store_episode(work, new, episode, vector)
        await _suggest_all(work, stored, zip(candidates, vectors, strict=True))
    return stored


def _heard(episode: NewEpisode) -> NewEpisode:
    """A session as it is judged: in it people tell their agent what to do, and may."""
    return replace(episode, doubt="") if episode.doubt == DEMAND else episode


def session_key(session: str) -> str:
    """What a session is known by in the audit stream."""
    return f"session:{session}"


async def _last_part(tx: Transaction, session: str) -> Part | None:
    found = await episodes.get_last_part(tx, session=session, session_key=session_key(session))
    return Part(**found) if found else None


def _storable(memory: Memory, new: NewPart) -> Iterator[Candidate]:
    """The candidates that can be stored; what is too long for a fact is in its episode."""
    circumstances = {key: getattr(new.episode, key) for key in ("session_id", "said_at")}
    circumstances |= {"place": new.place, "source_butler": memory.butler}
    for one in new.candidates:
        known = {name: circumstances[name] for name in circumstances.keys() & INPUT[type(one)]}
        with suppress(InvalidInput):
            checked = checked_new(replace(one, **known), memory.settings)
            assert isinstance(checked, NewFact | NewRule), "a candidate stays what it is"
            yield checked


async def _store_episode(
    work: UnitOfWork, new: NewPart, episode: NewEpisode, embedding: Embedding
) -> Part:
    """Store the episode of a part, linked to the one before if that is still there."""
    before = new.after.episode_id if new.after else None
    told = {"place": new.place, "through": new.through, "after": before and str(before)}
    stored = await store_episode_in(work, episode, embedding, told)
    if before is not None:
        this, that = (MemoryRef(MemoryType.EPISODE, id) for id in (stored.id, before))
        if await memories.get_trust(work.tx, that) is not None:
            await link_in(work, Link(this, Relation.RELATED_TO, that))
    return Part(stored.id, new.place, new.through)


async def _suggest_all(
    work: UnitOfWork, part: Part, candidates: Iterable[tuple[Candidate, Embedding]]
) -> None:
    now = work.now
    drawn = [(replace(one, source_episode_id=part.episode_id), at) for one, at in candidates]
    # Taken before any is stored: of two sessions at once neither waits for what it keeps back.
    await lock_names(work.tx, "candidates", work.memory.butler)
    drawn = await _about_whom(work.tx, drawn)
    stated = [_ways(one, now) for one, _ in drawn if isinstance(one, NewFact)]
    await facts.hold_keys(work.tx, *(FactKey.of(one) for ways in stated for one in ways))
    for candidate, embedding in drawn:
        stored = await _suggest(work, candidate, embedding)
        if stored is not None:
            await derive_in(work, stored, [part.episode_id])


async def _about_whom(
    tx: Transaction, drawn: Sequence[tuple[Candidate, Embedding]]
) -> list[tuple[Candidate, Embedding]]:
    """The facts among them about the entity that each names."""
    found = iter(await hold_all(tx, [one for one, _ in drawn if isinstance(one, NewFact)]))
    return [(next(found) if isinstance(one, NewFact) else one, at) for one, at in drawn]


async def _suggest(work: UnitOfWork, new: Candidate, embedding: Embedding) -> MemoryRef | None:
    """Store a candidate unless it is known; what was stored."""
    if isinstance(new, NewRule):
        if await rules.get_same(work.tx, scope=new.scope, content=new.content):
            return None
        rule = await store_rule_in(work, new, embedding)
        return MemoryRef(MemoryType.RULE, rule.id)
    free = await _free(work.tx, new, work.now)
    if free is None:
        return None
    fact = await store_fact_in(work, free, embedding)
    return MemoryRef(MemoryType.FACT, fact.id)


async def _free(tx: Transaction, new: NewFact, now: datetime) -> NewFact | None:
    """The fact under a key that nothing holds; None where it is known, or no such key is left."""
    for way in _ways(new, now):
        holder = await facts.get_active(tx, FactKey.of(way), now)
        if holder is None:
            return way
        if says_the_same(holder["content"], new.content):
            return None
    return None


def _ways(new: NewFact, now: datetime) -> tuple[NewFact, NewFact]:
    """A fact under its own key, and under one with the day it was said, beside what holds."""
    day = (new.said_at or now).date().isoformat()
    return new, replace(new, predicate=f"{new.predicate[: MAX_PREDICATE - 20]} (said {day})")
