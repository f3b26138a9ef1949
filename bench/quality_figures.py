"""Figures of retrieval quality: recall, gain and shares, in percent, and their limits."""

import math
from collections.abc import Iterable, Sequence

from bench import sets
from butlers.memory.flows import recall
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.recall import search_memories
from butlers.memory.handle import Memory
from butlers.memory.model import SearchMode

LIMIT = 10


async def search_ids(
    memory: Memory, store: sets.Store, text: str, mode: SearchMode, limit: int = LIMIT
) -> list[str]:
    """Search a store, and return what the set calls each result."""
    results = await search_memories(memory, CandidateQuery(text), mode, limit, store.lineage)
    return [store.ids[result["id"]] for result in results]


async def recall_ids(memory: Memory, store: sets.Store, text: str) -> list[str]:
    """Recall from a store, counted as used."""
    results = await recall.recall(memory, CandidateQuery(text), LIMIT, store.lineage)
    return [store.ids[str(result.ref.id)] for result in results]


def recall_at(results: Sequence[str], gold: Sequence[str], limit: int = LIMIT) -> float:
    """Return which part of the gold is among the first results."""
    return len(set(gold).intersection(results[:limit])) / len(set(gold))


def gain_at(results: Sequence[str], gold: Sequence[str], limit: int = LIMIT) -> float:
    """Return nDCG of the first results."""
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(set(gold)), limit)))
    hits = (rank for rank, result in enumerate(results[:limit]) if result in gold)
    return sum(1 / math.log2(rank + 2) for rank in hits) / ideal


def mean(values: Iterable[float]) -> float:
    """Return the mean in percent; 0 of nothing."""
    listed = list(values)
    return 100 * sum(listed) / len(listed) if listed else 0.0


def judge(what: str, value: float, least: float) -> bool:
    """Print a figure with its limit (a negative one: at most), and tell whether it is missed."""
    is_missed = value < least
    print(f"{what:<40} {abs(value):7.2f}   {abs(least):g}{'  MISSED' if is_missed else ''}")
    return is_missed
