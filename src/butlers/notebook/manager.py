"""The notebook as one object: notes with categories, a cache, and search."""

from concurrent.futures import Executor
from pathlib import Path

import structlog

from butlers.clock import Clock, utc_now
from butlers.db.sqlite import Stamp
from butlers.errors import ButlersError
from butlers.ids import NewId, new_id
from butlers.kernel.lru import LRUCache
from butlers.kernel.text import clean
from butlers.llm import LanguageModel
from butlers.notebook import core, related, store
from butlers.notebook.handle import Notebook, checked_agent, checked_limit
from butlers.notebook.model import (
    AgentMemory,
    CacheStats,
    DeepSearchFn,
    EnrichedMemory,
    FastSearchOptions,
    MemoryCategory,
    MemoryManagerOptions,
    RelatedMemory,
    ScoredMemory,
    SearchOptions,
    SearchResult,
)
from butlers.notebook.reranker import reranking_with
from butlers.notebook.schema import ensure_memory_schema, open_notebook
from butlers.notebook.search import fast_search, find

_log = structlog.get_logger(__name__)
DEEP_SEARCH_SECONDS = 60
"""How long a deep search waits for the language model."""
FILE = "notes.sqlite"
"""The file name of a notebook in its butler's directory."""

# Aliases, because `list` is a method below.
Notes = list[AgentMemory]
Found = list[ScoredMemory]
Related = list[RelatedMemory]


_Cached = tuple[Stamp, EnrichedMemory]
"""A note, and the database's stamp before it was read."""


class MemoryManager:
    """Saves, recalls and searches notes; threads may share it.

    A cached note is valid while the database's stamp is unchanged, which every process changes.
    """

    def __init__(self, db: Notebook, options: MemoryManagerOptions | None = None) -> None:
        chosen = options or {}
        self.db, self._lock, self._stamp = db, db.sqlite.lock, db.sqlite.stamp
        self._cache: LRUCache[_Cached] = LRUCache(**chosen.get("cache", {}))
        self._deep_search_fn = chosen.get("deep_search_fn")
        try:
            ensure_memory_schema(db)
            core.adopt_notes(db)
        except ButlersError as error:
            _log.warning("notebook goes on without its extension tables", error=str(error))

    def save(self, agent_id: str, key: str, content: str) -> EnrichedMemory:
        """Write a note with its category, its weights and its references."""
        saved = core.save_memory(self.db, agent_id, key, content)
        # Not put into the cache: by now another process may have written the note again.
        with self._lock:
            self._cache.delete(f"{saved.agent_id}:{saved.key}")
        return saved

    def recall(self, agent_id: str, key: str) -> EnrichedMemory | None:
        """Return the agent's note under this key, archived or not; from the cache if valid."""
        with self._lock:
            stamp = self._stamp()
            cached = self._cache.get(f"{agent_id}:{key}")
            if cached is not None and cached[0] == stamp:
                memory = cached[1]
                # The key "b:c" of agent "a" is cached under the same name as "c" of agent "a:b".
                if memory.agent_id == agent_id:
                    return memory
            return self._read(stamp, checked_agent(agent_id), clean(key))

    async def search(
        self, agent_id: str, query: str, opts: SearchOptions | None = None
    ) -> SearchResult:
        """Search fast or deep, depending on `mode`."""
        return await find(self.db, agent_id, query, opts, self._deep_search_fn)

    def search_fast(
        self, agent_id: str, query: str, opts: FastSearchOptions | None = None
    ) -> Found:
        """Search the index without a language model."""
        return fast_search(self.db, agent_id, query, opts)

    def list(self, agent_id: str, limit: int = core.RECENT) -> Notes:
        """List the agent's live notes, last changed first."""
        return core.list_memories(self.db, agent_id, limit)

    def list_by_category(
        self, agent_id: str, category: MemoryCategory | str, limit: int = core.RECENT
    ) -> Notes:
        """List the agent's live notes of one category, last changed first."""
        return store.recent(self.db, checked_agent(agent_id), checked_limit(limit), category)

    def get_related(self, memory_id: str, limit: int = related.MOST_REFERENCES) -> Related:
        """List the live notes that share words with this one, most similar first."""
        return related.get_related(self.db, memory_id, limit)

    def invalidate_agent(self, agent_id: str) -> None:
        """Drop the cached notes of one agent."""
        with self._lock:
            self._cache.invalidate_prefix(f"{agent_id}:")

    def clear_cache(self) -> None:
        """Drop every cached note and the cached document frequencies."""
        with self._lock:
            self._cache.clear()
            self.db.frequencies.clear()

    def get_cache_stats(self) -> CacheStats:
        """Return the number of cached notes."""
        return {"size": len(self._cache)}

    def set_deep_search_fn(self, fn: DeepSearchFn) -> None:
        """Use this callback for deep searches from now on."""
        self._deep_search_fn = fn

    def _read(self, stamp: Stamp, agent_id: str, key: str) -> EnrichedMemory | None:
        with self.db.sqlite.snapshot():
            memory = store.get(self.db, agent_id, key)
            if memory is None:
                return None
            enriched = store.enriched(memory, store.get_category(self.db, memory.id))
        self._cache.set(f"{agent_id}:{key}", (stamp, enriched))
        return enriched


def open_manager(
    directory: Path,
    *,
    clock: Clock = utc_now,
    new_id: NewId = new_id,
    model: LanguageModel | None = None,
    worker: Executor | None = None,
) -> MemoryManager:
    """Open the notebook in a butler's directory; deep searches use `model`."""
    db = open_notebook(directory / FILE, clock=clock, new_id=new_id, worker=worker)
    options: MemoryManagerOptions = {}
    if model is not None:
        options["deep_search_fn"] = reranking_with(model, DEEP_SEARCH_SECONDS)
    try:
        return MemoryManager(db, options)
    except BaseException:
        db.close()
        raise
