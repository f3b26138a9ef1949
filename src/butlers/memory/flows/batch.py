"""Storing many memories at once, with what storing them one by one in their order would give.

All are checked before any is embedded, and embedded before a connection is taken. Then some at a
time share a transaction; where that fails, each of them gets its own: what is wrong with one, or
two writers who wait for each other, keeps no other from being stored.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, assert_never

from butlers.db.postgres import Transaction
from butlers.errors import ButlersError, Unavailable
from butlers.memory.flows.conflict_detection import embed_predicates
from butlers.memory.flows.entity_linking import hold_all
from butlers.memory.flows.remember import paced, store_episode_in, store_fact_in, store_rule_in
from butlers.memory.flows.results import Stored, StoredEpisode, StoredFact
from butlers.memory.handle import Embedding, Memory, UnitOfWork
from butlers.memory.model import (
    Lineage,
    MemoryType,
    New,
    NewEpisode,
    NewFact,
    NewRule,
)
from butlers.memory.policy.attachments import checked_new, masked_between
from butlers.memory.store import facts
from butlers.memory.store.facts import FactKey

EMBEDDED_AT_ONCE = 256
"""Texts sorted by length together; among fewer, more of what the model reads is padding."""
STORED_AT_ONCE = 50
"""Memories that share a transaction."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What came of one memory of a batch: what was stored, or why nothing was."""

    place: int
    stored: Stored | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """With what storing it alone would have answered, or with the error."""
        if self.stored is None:
            return {"place": self.place, "error": self.error}
        kind = _kind_of(self.stored)
        return {"place": self.place, "memory_type": kind, **self.stored.as_dict()}


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """What came of a batch, in the order it was given."""

    results: tuple[BatchResult, ...]

    @property
    def stored(self) -> int:
        """How many are stored now, those among them that their idempotency key shows known."""
        return sum(one.stored is not None for one in self.results)

    @property
    def failed(self) -> int:
        """How many are not."""
        return len(self.results) - self.stored

    def as_dict(self) -> dict[str, Any]:
        """The counts, and what came of each."""
        told = [one.as_dict() for one in self.results]
        return {"stored": self.stored, "failed": self.failed, "results": told}


@dataclass(frozen=True, slots=True)
class _Ready:
    """A checked and embedded memory, and where it stood among those given."""

    place: int
    new: New
    embedding: Embedding
    masked: int = 0


@dataclass(slots=True)
class _Batch:
    """A batch on its way: what came of each memory so far, by its place."""

    memory: Memory
    lineage: Lineage
    outcomes: dict[int, Stored | ButlersError] = field(default_factory=dict)

    @property
    def keeps_any(self) -> bool:
        """Whether something is stored that the caller has to be told of."""
        return any(not isinstance(one, ButlersError) for one in self.outcomes.values())


async def store_batch(
    memory: Memory,
    given: Sequence[New | ButlersError],
    lineage: Lineage,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> StoredBatch:
    """Store memories in their order; one that cannot be has its error in the answer."""
    batch = _Batch(memory, lineage)
    ready = await _embedded(batch, _checked(batch, given))
    try:
        for some in _slices(ready, STORED_AT_ONCE):
            await _store(batch, some)
            on_progress(some[-1].place + 1, len(given))
    except Unavailable as error:
        if not batch.keeps_any:
            raise
        batch.outcomes = {**{one.place: error for one in ready}, **batch.outcomes}
    return StoredBatch(tuple(_result(n, batch.outcomes[n]) for n in range(len(given))))


def _checked(batch: _Batch, given: Sequence[New | ButlersError]) -> dict[int, tuple[New, int]]:
    """Those fit to be stored, and how many secrets each held; what is wrong is noted."""
    fit: dict[int, tuple[New, int]] = {}
    for place, new in enumerate(given):
        try:
            if isinstance(new, ButlersError):
                raise new
            checked = checked_new(new, batch.memory.settings)
            kept = paced(batch.memory, checked, batch.lineage)
            fit[place] = kept, masked_between(new, kept)
        except ButlersError as error:
            batch.outcomes[place] = error
    return fit


async def _embedded(batch: _Batch, fit: dict[int, tuple[New, int]]) -> list[_Ready]:
    ready: list[_Ready] = []
    for some in _slices(list(fit.items()), EMBEDDED_AT_ONCE):
        texts = [new.searchable_text for _, (new, _) in some]
        made = await batch.memory.embed_all(texts, batch.lineage)
        ready += [
            _Ready(place, new, vector, masked)
            for (place, (new, masked)), vector in zip(some, made, strict=True)
        ]
    await embed_predicates(batch.memory, [new for new, _ in fit.values()], batch.lineage)
    return ready


async def _store(batch: _Batch, some: Sequence[_Ready]) -> None:
    try:
        batch.outcomes |= await _together(batch, some)
    except Unavailable:
        raise
    except ButlersError:
        for one in some:
            batch.outcomes[one.place] = await _alone(batch, one)


async def _together(batch: _Batch, some: Sequence[_Ready]) -> dict[int, Stored | ButlersError]:
    async with batch.memory.begin(batch.lineage) as work:
        await _hold_keys(work.tx, [one.new for one in some if isinstance(one.new, NewFact)])
        return {one.place: await _store_in(work, one) for one in some}


async def _alone(batch: _Batch, one: _Ready) -> Stored | ButlersError:
    try:
        async with batch.memory.begin(batch.lineage) as work:
            return await _store_in(work, one)
    except Unavailable:
        raise
    except ButlersError as error:
        return error


async def _hold_keys(tx: Transaction, new: Sequence[NewFact]) -> None:
    """Two batches with the same keys take turns, in whatever order each of them has them."""
    once = [one.idempotency_key for one in new if one.idempotency_key is not None]
    if once:
        await facts.hold_idempotency_keys(tx, *once)
    if new:
        await facts.hold_keys(tx, *map(FactKey.of, await hold_all(tx, new)))


async def _store_in(work: UnitOfWork, one: _Ready) -> Stored:
    return replace(await _stored_in(work, one), masked=one.masked)


async def _stored_in(work: UnitOfWork, one: _Ready) -> Stored:
    match one.new:
        case NewEpisode():
            return await store_episode_in(work, one.new, one.embedding)
        case NewFact():
            return await store_fact_in(work, one.new, one.embedding)
        case NewRule():
            return await store_rule_in(work, one.new, one.embedding)
        case _:
            assert_never(one.new)


def _result(place: int, outcome: Stored | ButlersError) -> BatchResult:
    if isinstance(outcome, ButlersError):
        return BatchResult(place, error=str(outcome))
    return BatchResult(place, outcome)


def _kind_of(stored: Stored) -> MemoryType:
    if isinstance(stored, StoredEpisode):
        return MemoryType.EPISODE
    return MemoryType.FACT if isinstance(stored, StoredFact) else MemoryType.RULE


def _slices(whole: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (whole[start : start + size] for start in range(0, len(whole), size))
