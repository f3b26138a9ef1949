"""Everything the package promises is there, with the parameters and results it promises."""

import inspect
from dataclasses import fields
from typing import get_type_hints

import pytest

from butlers import notebook
from butlers.notebook import (
    AgentMemory,
    CategoryResult,
    EnrichedMemory,
    IDFCorpus,
    LRUCache,
    LRUCacheOptions,
    MemoryManager,
    MemoryManagerOptions,
    ScoredMemory,
    SearchMode,
    SearchOptions,
    SearchResult,
    Source,
)

FUNCTIONS = {
    "tokenize": ["text"],
    "term_frequency": ["tokens"],
    "cosine_similarity_sparse": ["a", "b"],
    "cosine_similarity_dense": ["a", "b"],
    "compute_decay_multiplier": ["updated_at", "now"],
    "apply_decay": ["results", "now"],
    "fast_search": ["db", "agent_id", "query", "opts"],
    "deep_search": ["db", "agent_id", "query", "opts", "deep_search_fn"],
    "search": ["db", "agent_id", "query", "opts", "deep_search_fn"],
    "summarize_old_memories": ["db", "agent_id", "older_than_days"],
    "categorize": ["key", "content"],
    "all_categories": [],
    "ensure_memory_schema": ["db"],
    "save_memory": ["db", "agent_id", "key", "content"],
    "recall_memory": ["db", "agent_id", "key"],
    "list_memories": ["db", "agent_id", "limit"],
    "search_memories": ["db", "agent_id", "query", "limit"],
}
METHODS = {
    MemoryManager: {
        "save": ["agent_id", "key", "content"],
        "recall": ["agent_id", "key"],
        "search": ["agent_id", "query", "opts"],
        "search_fast": ["agent_id", "query", "opts"],
        "list": ["agent_id", "limit"],
        "list_by_category": ["agent_id", "category", "limit"],
        "get_related": ["memory_id", "limit"],
        "invalidate_agent": ["agent_id"],
        "clear_cache": [],
        "get_cache_stats": [],
        "set_deep_search_fn": ["fn"],
    },
    IDFCorpus: {
        "add_document": ["tokens"],
        "remove_document": ["tokens"],
        "idf": ["term"],
        "tfidf_vector": ["tokens"],
        "tfidf_dense_vector": ["tokens", "vocab_index"],
    },
    LRUCache: {
        "get": ["key"],
        "set": ["key", "value"],
        "delete": ["key"],
        "invalidate_prefix": ["prefix"],
        "clear": [],
        "prune": [],
    },
}
ASYNC = {"deep_search", "search"}


def parameters(function: object) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.contract("K-A1")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function = getattr(notebook, name)
    assert parameters(function) == FUNCTIONS[name]
    assert inspect.iscoroutinefunction(function) == (name in ASYNC)


@pytest.mark.contract("K-A3", "K-A4", "K-A5")
@pytest.mark.parametrize("cls", METHODS)
def test_methods(cls: type) -> None:
    for name, expected in METHODS[cls].items():
        assert parameters(getattr(cls, name)) == expected
    assert [n for n in METHODS[cls] if inspect.iscoroutinefunction(getattr(cls, n))] == (
        ["search"] if cls is MemoryManager else []
    )


@pytest.mark.contract("K-A2")
def test_types() -> None:
    names = {cls: [field.name for field in fields(cls)] for cls in (AgentMemory, EnrichedMemory)}
    note = names[AgentMemory]
    assert " ".join(note) == ("id agent_id key content txid status archived created_at updated_at")
    assert names[EnrichedMemory] == [*note, "category", "category_confidence"]
    assert [f.name for f in fields(SearchResult)] == ["memories", "mode", "total_candidates"]
    assert [f.name for f in fields(ScoredMemory)] == ["memory", "score", "source"]
    assert [f.name for f in fields(CategoryResult)] == ["category", "confidence"]
    assert list(SearchMode) == ["fast", "deep"]
    assert list(Source) == ["fts5", "tfidf", "combined", "llm"]
    assert set(get_type_hints(SearchOptions)) == {"limit", "mode", "category", "min_similarity"}
    assert set(get_type_hints(LRUCacheOptions)) == {"max_size", "ttl_ms"}
    assert set(get_type_hints(MemoryManagerOptions)) == {"cache", "deep_search_fn"}
    assert not SearchOptions.__required_keys__
    assert notebook.DeepSearchFn
