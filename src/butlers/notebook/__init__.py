"""Keyed notes per agent on SQLite."""

from butlers.kernel.lru import LRUCache
from butlers.kernel.similarity import (
    IDFCorpus,
    cosine_similarity_dense,
    cosine_similarity_sparse,
    term_frequency,
)
from butlers.notebook.categories import all_categories, categorize
from butlers.notebook.core import (
    list_memories,
    recall_memory,
    save_memory,
    search_memories,
)
from butlers.notebook.handle import Notebook, owner_id
from butlers.notebook.handle import NoteLimits as Limits
from butlers.notebook.manager import MemoryManager
from butlers.notebook.model import (
    AgentMemory,
    CacheStats,
    CategoryResult,
    DeepSearchFn,
    EnrichedMemory,
    FastSearchOptions,
    LRUCacheOptions,
    MemoryCategory,
    MemoryManagerOptions,
    MemoryStatus,
    RelatedMemory,
    ScoredMemory,
    SearchOptions,
    SearchResult,
    apply_decay,
    compute_decay_multiplier,
)
from butlers.notebook.model import (
    NoteSearchMode as SearchMode,
)
from butlers.notebook.model import (
    ScoreSource as Source,
)
from butlers.notebook.schema import ensure_memory_schema, open_notebook
from butlers.notebook.search import deep_search, fast_search, search
from butlers.notebook.summarize import summarize_old_memories
from butlers.notebook.tokenizer import tokenize

__all__ = [
    "AgentMemory",
    "CacheStats",
    "CategoryResult",
    "DeepSearchFn",
    "EnrichedMemory",
    "FastSearchOptions",
    "IDFCorpus",
    "LRUCache",
    "LRUCacheOptions",
    "Limits",
    "MemoryCategory",
    "MemoryManager",
    "MemoryManagerOptions",
    "MemoryStatus",
    "Notebook",
    "RelatedMemory",
    "ScoredMemory",
    "SearchMode",
    "SearchOptions",
    "SearchResult",
    "Source",
    "all_categories",
    "apply_decay",
    "categorize",
    "compute_decay_multiplier",
    "cosine_similarity_dense",
    "cosine_similarity_sparse",
    "deep_search",
    "ensure_memory_schema",
    "fast_search",
    "list_memories",
    "open_notebook",
    "owner_id",
    "recall_memory",
    "save_memory",
    "search",
    "search_memories",
    "summarize_old_memories",
    "term_frequency",
    "tokenize",
]
