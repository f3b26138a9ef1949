"""Store what a session leaves, part by part: an episode each, its pieces, and what was stated."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.errors import ButlersError
from butlers.memory.flows.decisions import mark_past, settles
from butlers.memory.flows.entity_linking import hold_all
from butlers.memory.flows.links import derive_in, link_in
from butlers.memory.flows.memory_checks import checked_each
from butlers.memory.flows.proposals import propose_stated
from butlers.memory.flows.provenance import Sourced, link_repeated
from butlers.memory.flows.remember import insert_episode, store_episode_in, store_in
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    EventType,
    Lineage,
    Link,
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    PieceKind,
    Relation,
    Trust,
)
from butlers.memory.policy.inputs import MAX_PREDICATE
from butlers.memory.policy.statement_keys import statement_key
from butlers.memory.policy.trust import DRAWN_FROM_HELD, MAYBE_PASTED
from butlers.memory.records import INPUT
from butlers.memory.store import episodes, facts, memories, rules
from butlers.memory.store.events import Transition
from butlers.memory.store.facts import FactKey

Candidate = NewFact | NewRule
_MOST_A_DAY = 5
"""Facts of one subject and predicate that are stored beside each other a day."""
MAX_PIECES = 999
"""The most pieces of a part; their places follow those of the parts before."""


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
    pieces: Sequence[NewEpisode] = ()
    waiting: Sequence[Candidate] = ()
    """Candidates that are proposed: it is uncertain that the user stated them."""
    outcome: str = ""
    """The end of the episode's text, in which the agent speaks."""

    @property
    def place(self) -> int:
        """Its number among the parts."""
        return self.after.place + 1 if self.after else 0


async def last_part(memory: Memory, session: str, lineage: Lineage) -> Part | None:
    """Return the part of a session that was stored last, if any."""
    async with memory.transaction(lineage) as tx:
        return await _last_part(tx, session)


async def store_part(memory: Memory, new: NewPart, lineage: Lineage) -> Part | None:
    """Store a part, its pieces and what was stated in it; None if another was stored first.

    A candidate is left out where a fact or rule says the same. It supersedes a fact of its key
    only if that came from an earlier statement and this gives it another value; else it is stored
    beside it. A piece is stored once, in whichever session it comes again; a decision may make
    earlier ones past. What may not be the user's word, or stands in a quarantined part, is
    proposed; what is suspicious itself is quarantined. Locks the session, the butler's candidates
    and the scope's decisions. Events have the session's key as their request id.
    """
    [episode] = await _checked_episodes(memory, [replace(new.episode, place=new.place)])
    candidates, waiting = await _divided(memory, new, episode)
    pieces = await _checked_pieces(memory, new.pieces, new.place, episode.doubt)
    texts = [one.searchable_text for one in (episode, *pieces, *candidates)]
    vector, *vectors = await memory.embed(texts, lineage)
    vector = replace(vector, parts=())  # a person speaks in it too
    words = new.episode.content.removesuffix(new.outcome)
    compared = [_compared(*one, words) for one in zip(pieces, vectors, strict=False)]
    lineage = replace(lineage, request_id=session_key(new.session))
    async with memory.begin(lineage) as work:
        await work.tx.lock_names("session", new.session)
        if await _last_part(work.tx, new.session) != new.after:
            return None
        stored = await _store_episode(work, new, episode, vector)
        await _store_pieces(work, stored, zip(pieces, compared, strict=True))
        drawn = zip(candidates, vectors[len(pieces) :], strict=True)
        await _store_candidates(work, stored, drawn)
        why = DRAWN_FROM_HELD if episode.doubt else MAYBE_PASTED
        await _propose_candidates(work, stored, waiting, why)
    return stored


async def find_parts(memory: Memory, session: str, lineage: Lineage) -> list[tuple[str, Part]]:
    """List the parts of a session after the instants they begin at; none forgotten or erased."""
    async with memory.transaction(lineage) as tx:
        rows = await episodes.find_parts(tx, session_key=session_key(session))
    return [(row.pop("since"), Part(**row)) for row in map(dict, rows)]


async def store_pieces(
    memory: Memory, session: str, part: Part, pieces: Sequence[NewEpisode], lineage: Lineage
) -> None:
    """Store pieces of a part that was stored before; those that are known are left as they are."""
    checked = await _checked_pieces(memory, pieces, part.place, "")
    vectors = await memory.embed([piece.searchable_text for piece in checked], lineage)
    async with memory.begin(replace(lineage, request_id=session_key(session))) as work:
        await work.tx.lock_names("session", session)
        compared = [_compared(*one, "") for one in zip(checked, vectors, strict=True)]
        await _store_pieces(work, part, zip(checked, compared, strict=True))


def session_key(session: str) -> str:
    """Return the request id of a session's events."""
    return f"session:{session}"


async def _last_part(tx: Transaction, session: str) -> Part | None:
    row = await episodes.get_last_part(tx, session=session, session_key=session_key(session))
    return Part(**row) if row else None


async def _checked_episodes(memory: Memory, new: Sequence[NewEpisode]) -> list[NewEpisode]:
    """Check episodes of a session; raise what refuses one."""
    checked = list[NewEpisode]()
    for episode in await checked_each(memory, new):
        if isinstance(episode, ButlersError):
            raise episode
        checked.append(episode)
    return checked


async def _checked_pieces(
    memory: Memory, pieces: Sequence[NewEpisode], part: int, doubt: str
) -> list[NewEpisode]:
    """Check the pieces of a part and give them places; what makes it suspicious makes them so."""
    first = (part + 1) * (MAX_PIECES + 1)
    placed = [replace(one, place=first + n) for n, one in enumerate(pieces[:MAX_PIECES])]
    checked = await _checked_episodes(memory, placed)
    return [replace(one, doubt=one.doubt or doubt) for one in checked]


async def _divided(
    memory: Memory, new: NewPart, episode: NewEpisode
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the candidates to store, and those to propose."""
    sure, unsure = [await _storable(memory, new, some) for some in (new.candidates, new.waiting)]
    held = [one for one in sure if episode.doubt and not one.doubt]
    stored = [one for one in sure if one not in held] + [one for one in unsure if one.doubt]
    return stored, held + [one for one in unsure if not one.doubt]


async def _storable(
    memory: Memory, new: NewPart, candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Check the candidates; leave out those too long for a fact, which the episode holds."""
    circumstances = {key: getattr(new.episode, key) for key in ("session_id", "said_at")}
    circumstances |= {"place": new.place, "source_butler": memory.butler}
    placed = list[Candidate]()
    for candidate in candidates:
        fields = circumstances.keys() & INPUT[type(candidate)]
        placed.append(replace(candidate, **{name: circumstances[name] for name in fields}))
    checked = await checked_each(memory, placed)
    return [one for one in checked if isinstance(one, NewFact | NewRule)]


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


async def _store_pieces(
    work: UnitOfWork, part: Part, pieces: Iterable[tuple[NewEpisode, Embedding]]
) -> None:
    payloads, now = dict[UUID, dict[str, Any]](), work.now
    stored: list[tuple[MemoryRef, NewEpisode, Sourced]] = []
    for piece, embedding in pieces:
        metadata = {**piece.metadata, "part": str(part.episode_id)}
        piece = replace(piece, metadata=metadata)
        row, payload, sourced = await insert_episode(work, piece, embedding, now)
        if payload:
            payloads[row.id] = payload
            stored.append((row.ref, piece, sourced))
    await work.record(Transition(EventType.EPISODE_CREATED, payloads), now)
    for ref, piece, sourced in stored:
        await _settle(work, ref, piece, sourced)


async def _settle(work: UnitOfWork, ref: MemoryRef, piece: NewEpisode, sourced: Sourced) -> None:
    """Link a piece to what it repeats; one that repeats nothing may make decisions past."""
    await link_repeated(work, ref, sourced)
    if sourced.original is None and settles(piece.piece, piece.content):
        await mark_past(work, ref.id, piece.content, piece.butler)


def _compared(piece: NewEpisode, embedding: Embedding, words: str) -> Embedding:
    """Return the vectors of what an agent says in a piece, without its user's words."""
    if piece.piece not in (PieceKind.ANSWER, PieceKind.DECISION):
        return replace(embedding, parts=())
    whole, each = embedding.parts[:1], embedding.parts[1:]
    told = tuple(part for part in each or whole if part[0] not in words)
    return replace(embedding, parts=(*whole, *told) if each and told else told)


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
        new = await _unless_known(work, candidate)
        if new is not None:
            stored = await store_in(work, new, embedding)
            await derive_in(work, stored.ref, [part.episode_id])


async def _propose_candidates(
    work: UnitOfWork, part: Part, waiting: Sequence[Candidate], why: str
) -> None:
    """Propose what was stated perhaps, unless it is known."""
    for candidate in waiting:
        if new := await _unless_known(work, candidate):
            await propose_stated(work, new, part.episode_id, why)


async def _unless_known(work: UnitOfWork, new: Candidate) -> Candidate | None:
    """Return a candidate under a key that is free, or of low trust; None if it is known."""
    tx, now = work.tx, work.now
    about = {"scope": new.scope, "content": new.content, "trust": work.lineage.trust}
    if isinstance(new, NewRule):
        return None if await rules.get_same(tx, **about) else new
    if await facts.get_same(tx, subject=new.subject, at=now, **about):
        return None
    for fact in _with_keys(new, now):
        holder = await facts.get_active(tx, at=now, **asdict(FactKey.of(fact)))
        if holder is None or holder["trust"] == Trust.LOW or _is_replaced(holder, new):
            return fact
    return None


def _is_replaced(holder: Row, new: NewFact) -> bool:
    """Whether a fact that was drawn from a statement has another value in a later one."""
    if not holder["is_stated"] or _is_earlier(new.said_at, holder["said_at"]):
        return False
    return statement_key(holder["content"]).is_replaced_by(statement_key(new.content))


def _is_earlier(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and one < other


def _with_keys(new: NewFact, now: datetime) -> list[NewFact]:
    """Return a fact under its own key, and under others with the day it was said."""
    day = (new.said_at or now).date().isoformat()
    days = [f"said {day}", *(f"said {day}, {number}" for number in range(2, _MOST_A_DAY + 1))]
    named = [f"{new.predicate[: MAX_PREDICATE - 25]} ({said})" for said in days]
    return [new, *(replace(new, predicate=predicate) for predicate in named)]
