"""Keyed notes per agent on SQLite."""

from butlers.kernel.lru import LRUCache as LRUCache
from butlers.kernel.similarity import IDFCorpus as IDFCorpus
from butlers.kernel.similarity import cosine_similarity_dense as cosine_similarity_dense
from butlers.kernel.similarity import cosine_similarity_sparse as cosine_similarity_sparse
from butlers.kernel.similarity import term_frequency as term_frequency
from butlers.notebook.categories import all_categories as all_categories
from butlers.notebook.categories import categorize as categorize
from butlers.notebook.core import list_memories as list_memories
from butlers.notebook.core import recall_memory as recall_memory
from butlers.notebook.core import save_memory as save_memory
from butlers.notebook.core import search_memories as search_memories
from butlers.notebook.handle import Notebook as Notebook
from butlers.notebook.handle import NoteLimits
from butlers.notebook.handle import owner_id as owner_id
from butlers.notebook.manager import MemoryManager as MemoryManager
from butlers.notebook.model import AgentMemory as AgentMemory
from butlers.notebook.model import CacheStats as CacheStats
from butlers.notebook.model import CategoryResult as CategoryResult
from butlers.notebook.model import DeepSearchFn as DeepSearchFn
from butlers.notebook.model import EnrichedMemory as EnrichedMemory
from butlers.notebook.model import FastSearchOptions as FastSearchOptions
from butlers.notebook.model import LRUCacheOptions as LRUCacheOptions
from butlers.notebook.model import MemoryCategory as MemoryCategory
from butlers.notebook.model import MemoryManagerOptions as MemoryManagerOptions
from butlers.notebook.model import MemoryStatus as MemoryStatus
from butlers.notebook.model import NoteSearchMode, ScoreSource
from butlers.notebook.model import RelatedMemory as RelatedMemory
from butlers.notebook.model import ScoredMemory as ScoredMemory
from butlers.notebook.model import SearchOptions as SearchOptions
from butlers.notebook.model import SearchResult as SearchResult
from butlers.notebook.model import apply_decay as apply_decay
from butlers.notebook.model import compute_decay_multiplier as compute_decay_multiplier
from butlers.notebook.schema import ensure_memory_schema as ensure_memory_schema
from butlers.notebook.schema import open_notebook as open_notebook
from butlers.notebook.search import deep_search as deep_search
from butlers.notebook.search import fast_search as fast_search
from butlers.notebook.search import search as search
from butlers.notebook.summarize import summarize_old_memories as summarize_old_memories
from butlers.notebook.tokenizer import tokenize as tokenize

Limits = NoteLimits
SearchMode = NoteSearchMode
Source = ScoreSource
