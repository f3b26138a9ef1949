"""The types of the notebook: notes, categories, search options and results; score decay."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypedDict

from butlers.clock import utc_now

FLOOR = 0.4
_STEPS = ((timedelta(days=7), 1.0), (timedelta(days=30), 0.8), (timedelta(days=90), 0.6))


class MemoryCategory(StrEnum):
    """What a note is about."""

    CONFIG = "config"
    CODE = "code"
    PERSON = "person"
    PROJECT = "project"
    CREDENTIAL = "credential"
    PREFERENCE = "preference"
    FACT = "fact"
    CONVERSATION = "conversation"
    TASK = "task"
    GENERAL = "general"


class MemoryStatus(StrEnum):
    """Whether a note's content has been confirmed elsewhere."""

    PENDING = "pending"
    CONFIRMED = "confirmed"


class NoteSearchMode(StrEnum):
    """Fast: index and TF-IDF. Deep: a language model ranks the candidates of a fast search."""

    FAST = "fast"
    DEEP = "deep"


class ScoreSource(StrEnum):
    """Where a score comes from."""

    FTS5 = "fts5"
    TFIDF = "tfidf"
    COMBINED = "combined"
    LLM = "llm"


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """One note: the columns of `agent_memories`."""

    id: str
    agent_id: str
    key: str
    content: str
    txid: str | None
    status: MemoryStatus
    archived: bool
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class EnrichedMemory(AgentMemory):
    """A note and the category it was given."""

    category: MemoryCategory | None = None
    category_confidence: float | None = None


@dataclass(frozen=True, slots=True)
class CategoryResult:
    """The best category for a text, and its confidence in [0, 1]."""

    category: MemoryCategory
    confidence: float


@dataclass(frozen=True, slots=True)
class ScoredMemory:
    """A note that a search found."""

    memory: AgentMemory
    score: float
    source: ScoreSource


@dataclass(frozen=True, slots=True)
class RelatedMemory:
    """A note that shares words with another one, and their Jaccard similarity."""

    memory: AgentMemory
    score: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The results of a search, its mode, and the number of candidates."""

    memories: list[ScoredMemory]
    mode: NoteSearchMode
    total_candidates: int


class FastSearchOptions(TypedDict, total=False):
    """Options of a fast search."""

    limit: int
    category: str | None
    min_similarity: float


class SearchOptions(FastSearchOptions, total=False):
    """Options of a search; all have defaults."""

    mode: NoteSearchMode | str


DeepSearchFn = Callable[[str, Sequence[AgentMemory], int], Awaitable[Sequence[ScoredMemory]]]
"""Ranks candidates for a query: `(query, candidates, limit)` to scored candidates."""


class LRUCacheOptions(TypedDict, total=False):
    """How many notes the cache keeps, and for how long."""

    max_size: int
    ttl_ms: float


class MemoryManagerOptions(TypedDict, total=False):
    """Options of a manager."""

    cache: LRUCacheOptions
    deep_search_fn: DeepSearchFn


class CacheStats(TypedDict):
    """How many notes are in the cache."""

    size: int


def to_text(moment: datetime) -> str:
    """Format a time as the tables store it: UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def from_text(text: str) -> datetime | None:
    """Parse a stored time (UTC without a zone); None if it cannot be parsed."""
    try:
        return _aware(datetime.fromisoformat(text))
    except ValueError:
        return None


def compute_decay_multiplier(updated_at: str, now: datetime | None = None) -> float:
    """Return the share of a score that is left at this age; a time without a zone is UTC.

    A timestamp that cannot be parsed counts as old, so that one bad row costs only itself.
    """
    updated = from_text(updated_at)
    if updated is None:
        return FLOOR
    age = _aware(now or utc_now()) - updated
    return next((multiplier for limit, multiplier in _STEPS if age < limit), FLOOR)


def apply_decay(results: Iterable[ScoredMemory], now: datetime | None = None) -> list[ScoredMemory]:
    """Apply decay to the scores and sort, best first."""
    moment = now or utc_now()
    decayed = []
    for result in results:
        multiplier = compute_decay_multiplier(result.memory.updated_at, moment)
        decayed.append(replace(result, score=result.score * multiplier))
    return sorted(decayed, key=lambda result: (-result.score, result.memory.key, result.memory.id))


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
