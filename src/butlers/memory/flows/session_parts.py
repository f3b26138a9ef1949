"""Store what a session leaves, part by part: an episode each, and what was stated in it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.errors import InvalidInput
from butlers.kernel.text import says_the_same
from butlers.memory.flows.entity_linking import hold_all
from butlers.memory.flows.links import derive_in, link_in
from butlers.memory.flows.remember import store_episode_in, store_in
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
from butlers.memory.policy.inputs import MAX_PREDICATE, checked_new
from butlers.memory.policy.suspicion import DEMAND
from butlers.memory.records import INPUT
from butlers.memory.store import episodes, facts, memories, rules
from butlers.memory.store.facts import FactKey

Candidate = NewFact | NewRule


@dataclass(frozen=True, slots=True)
class Part:
    """The last stored part of a session: its episode, its number, and what it reaches through."""

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
        """Its number among the parts."""
        return self.after.place + 1 if self.after else 0


async def last_part(memory: Memory, session: str, lineage: Lineage) -> Part | None:
    """Return the part of a session that was stored last, if any."""
    async with memory.transaction(lineage) as tx:
        return await _last_part(tx, session)


async def store_part(memory: Memory, new: NewPart, lineage: Lineage) -> Part | None:
    """Store a part and what was stated in it, all or nothing; None if another was stored first.

    A candidate supersedes nothing: it is left out where a fact or rule says the same, and stored
    beside a fact that has its key. Locks the session and the butler's candidates. Events have the
    session's key as their request id.
    """
    episode = checked_new(replace(new.episode, place=new.place), memory.settings)
    if episode.doubt == DEMAND:  # in a session people may tell their agent what to do
        episode = replace(episode, doubt="")
    candidates = list(_storable(memory, new))
    texts = [one.searchable_text for one in (episode, *candidates)]
    vector, *vectors = await memory.embed(texts, lineage)
    lineage = replace(lineage, request_id=session_key(new.session))
    async with memory.begin(lineage) as work:
        await work.tx.lock_names("session", new.session)
        if await _last_part(work.tx, new.session) != new.after:
            return None
        stored = await _store_episode(work, new, episode, vector)
        await _store_candidates(work, stored, zip(candidates, vectors, strict=True))
    return stored


def session_key(session: str) -> str:
    """Return the request id of a session's events."""
    return f"session:{session}"


async def _last_part(tx: Transaction, session: str) -> Part | None:
    row = await episodes.get_last_part(tx, session=session, session_key=session_key(session))
    return Part(**row) if row else None


def _storable(memory: Memory, new: NewPart) -> Iterator[Candidate]:
    """Check the candidates; leave out those too long for a fact, which the episode holds."""
    circumstances = {key: getattr(new.episode, key) for key in ("session_id", "said_at")}
    circumstances |= {"place": new.place, "source_butler": memory.butler}
    for candidate in new.candidates:
        fields = circumstances.keys() & INPUT[type(candidate)]
        known = {name: circumstances[name] for name in fields}
        with suppress(InvalidInput):
            checked = checked_new(replace(candidate, **known), memory.settings)
            assert isinstance(checked, NewFact | NewRule), "a candidate stays what it is"
            yield checked


async def _store_episode(
    work: UnitOfWork, new: NewPart, episode: NewEpisode, embedding: Embedding
) -> Part:
    """Store the episode of a part, linked to the one before if that still exists."""
    before = new.after.episode_id if new.after else None
    more = {"place": new.place, "through": new.through, "after": before and str(before)}
    stored = await store_episode_in(work, episode, embedding, more)
    if before is not None:
        earlier = MemoryRef(MemoryType.EPISODE, before)
        if await memories.get_trust(work.tx, earlier) is not None:
            await link_in(work, Link(stored.ref, Relation.RELATED_TO, earlier))
    return Part(stored.id, new.place, new.through)


async def _store_candidates(
    work: UnitOfWork, part: Part, candidates: Iterable[tuple[Candidate, Embedding]]
) -> None:
    drawn = [(replace(one, source_episode_id=part.episode_id), at) for one, at in candidates]
    # Locked before any is stored: of two sessions at once neither waits for what it keeps back.
    await work.tx.lock_names("candidates", work.memory.butler)
    linked = iter(await hold_all(work.tx, [one for one, _ in drawn if isinstance(one, NewFact)]))
    drawn = [(next(linked) if isinstance(one, NewFact) else one, at) for one, at in drawn]
    keyed = [_with_keys(one, work.now) for one, _ in drawn if isinstance(one, NewFact)]
    await facts.hold_keys(work.tx, *(FactKey.of(fact) for both in keyed for fact in both))
    for candidate, embedding in drawn:
        new = await _unless_known(work.tx, candidate, work.now)
        if new is not None:
            stored = await store_in(work, new, embedding)
            await derive_in(work, stored.ref, [part.episode_id])


async def _unless_known(tx: Transaction, new: Candidate, now: datetime) -> Candidate | None:
    """Return a candidate under a free key; None if it is known, or no key is free."""
    if isinstance(new, NewRule):
        known = await rules.get_same(tx, scope=new.scope, content=new.content)
        return None if known else new
    for fact in _with_keys(new, now):
        holder = await facts.get_active(tx, at=now, **asdict(FactKey.of(fact)))
        if holder is None:
            return fact
        if says_the_same(holder["content"], new.content):
            return None
    return None


def _with_keys(new: NewFact, now: datetime) -> tuple[NewFact, NewFact]:
    """Return a fact under its own key, and under one with the day it was said."""
    day = (new.said_at or now).date().isoformat()
    return new, replace(new, predicate=f"{new.predicate[: MAX_PREDICATE - 20]} (said {day})")
