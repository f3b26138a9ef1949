"""Store many memories at once, with the result that storing them one by one in order would have.

All are checked before any is embedded, and embedded before a connection is taken. Then some at a
time share a transaction; where that fails, each of them gets its own, so that one bad memory, or
two writers who wait for each other, keeps no other from being stored.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from butlers.db.postgres import Transaction
from butlers.errors import ButlersError, Unavailable
from butlers.memory.flows.conflict_detection import embed_predicates
from butlers.memory.flows.entity_linking import hold_all
from butlers.memory.flows.memory_checks import checked_each
from butlers.memory.flows.remember import rate_checked, store_in
from butlers.memory.flows.results import Stored
from butlers.memory.handle import Embedding, Memory
from butlers.memory.model import Lineage, New, NewFact
from butlers.memory.policy.inputs import masked_between
from butlers.memory.store import facts
from butlers.memory.store.facts import FactKey

EMBEDDED_AT_ONCE = 256
"""Texts sorted by length together; among fewer, more of what the model reads is padding."""
STORED_AT_ONCE = 50
"""Memories that share a transaction."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What was stored for one memory of a batch, or why nothing was."""

    place: int
    stored: Stored | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what storing it alone returns, or the error."""
        if self.stored is None:
            return {"place": self.place, "error": self.error}
        return {"place": self.place, "memory_type": self.stored.type, **self.stored.as_dict()}


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """The results of a batch, in the order given."""

    results: tuple[BatchResult, ...]

    @property
    def stored(self) -> int:
        """How many are stored now, including those stored before under their idempotency key."""
        return sum(result.stored is not None for result in self.results)

    @property
    def failed(self) -> int:
        """How many are not."""
        return len(self.results) - self.stored

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, and the result of each memory."""
        results = [result.as_dict() for result in self.results]
        return {"stored": self.stored, "failed": self.failed, "results": results}


@dataclass(frozen=True, slots=True)
class _Ready:
    """A checked and embedded memory, and its place among those given."""

    place: int
    new: New
    embedding: Embedding
    masked: int


Results = dict[int, BatchResult]
"""Results by place."""


async def store_batch(
    memory: Memory,
    given: Sequence[New | ButlersError],
    lineage: Lineage,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> StoredBatch:
    """Store memories in their order; one that cannot be stored has its error in the result."""
    results: Results = {}
    ready = await _prepare(memory, given, lineage, results)
    try:
        for some in _slices(ready, STORED_AT_ONCE):
            await _store(memory, some, lineage, results)
            on_progress(some[-1].place + 1, len(given))
    except Unavailable as error:
        if not any(result.stored for result in results.values()):
            raise
        results = {one.place: BatchResult(one.place, error=str(error)) for one in ready} | results
    return StoredBatch(tuple(results[place] for place in range(len(given))))


async def _prepare(
    memory: Memory, given: Sequence[New | ButlersError], lineage: Lineage, results: Results
) -> list[_Ready]:
    """Check and embed memories; add the errors of the others to `results`."""
    checked: list[tuple[int, New, int]] = []
    stored = {place: new for place, new in enumerate(given) if not isinstance(new, ButlersError)}
    fit = dict(zip(stored, await checked_each(memory, list(stored.values())), strict=True))
    for place, new in enumerate(given):
        kept = new if isinstance(new, ButlersError) else fit[place]
        if isinstance(kept, ButlersError):
            results[place] = BatchResult(place, error=str(kept))
        else:
            kept = rate_checked(memory, kept, lineage)
            checked.append((place, kept, masked_between(stored[place], kept)))
    ready: list[_Ready] = []
    for some in _slices(checked, EMBEDDED_AT_ONCE):
        vectors = await memory.embed([new.searchable_text for _, new, _ in some], lineage)
        for (place, new, masked), vector in zip(some, vectors, strict=True):
            ready.append(_Ready(place, new, vector, masked))
    await embed_predicates(memory, [new for _, new, _ in checked], lineage)
    return ready


async def _store(memory: Memory, some: list[_Ready], lineage: Lineage, results: Results) -> None:
    """Store memories in one transaction; if that fails, each in its own."""
    try:
        results |= await _store_together(memory, some, lineage)
    except Unavailable:
        raise
    except ButlersError:
        for one in some:
            try:
                results |= await _store_together(memory, [one], lineage)
            except Unavailable:
                raise
            except ButlersError as error:
                results[one.place] = BatchResult(one.place, error=str(error))


async def _store_together(memory: Memory, some: list[_Ready], lineage: Lineage) -> Results:
    results: Results = {}
    async with memory.begin(lineage) as work:
        await _hold_keys(work.tx, [one.new for one in some if isinstance(one.new, NewFact)])
        for one in some:
            stored = await store_in(work, one.new, one.embedding)
            results[one.place] = BatchResult(one.place, replace(stored, masked=one.masked))
    return results


async def _hold_keys(tx: Transaction, new: Sequence[NewFact]) -> None:
    """Lock the keys of all facts at once, so that two batches cannot wait for each other."""
    if keys := [fact.idempotency_key for fact in new if fact.idempotency_key is not None]:
        await facts.hold_idempotency_keys(tx, *keys)
    if new:
        await facts.hold_keys(tx, *map(FactKey.of, await hold_all(tx, new)))


def _slices(whole: list[T], size: int) -> Iterator[list[T]]:
    return (whole[start : start + size] for start in range(0, len(whole), size))
