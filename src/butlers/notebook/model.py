"""What the notebook speaks of: notes, their categories, and what a search asks and answers."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict


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
    """Fast: index and arithmetic. Deep: a language model ranks what fast found."""

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
    """The best category for a text, and how sure that is, in [0, 1]."""

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
    """What a search found, how it was asked to look, and among how many candidates."""

    memories: list[ScoredMemory]
    mode: NoteSearchMode
    total_candidates: int


class FastSearchOptions(TypedDict, total=False):
    """What a search may be told that is fast anyway."""

    limit: int
    category: str | None
    min_similarity: float


class SearchOptions(FastSearchOptions, total=False):
    """What a search may be told; everything has a default."""

    mode: NoteSearchMode | str


DeepSearchFn = Callable[[str, Sequence[AgentMemory], int], Awaitable[Sequence[ScoredMemory]]]
"""Ranks candidates for a query: `(query, candidates, limit)` to scored candidates."""


class LRUCacheOptions(TypedDict, total=False):
    """How many notes the cache keeps, and for how long."""

    max_size: int
    ttl_ms: float


class MemoryManagerOptions(TypedDict, total=False):
    """What a manager may be told."""

    cache: LRUCacheOptions
    deep_search_fn: DeepSearchFn


class CacheStats(TypedDict):
    """How many notes are in the cache."""

    size: int
