"""The core: save, recall, list and search notes, without a cache."""

from butlers.kernel.secret_policy import admitted, refuse_secret
from butlers.kernel.text import clean
from butlers.notebook import related, store, terms
from butlers.notebook.categories import categorize
from butlers.notebook.handle import (
    Notebook,
    checked_agent,
    checked_content,
    checked_key,
    checked_limit,
)
from butlers.notebook.model import AgentMemory, CategoryResult, EnrichedMemory
from butlers.notebook.schema import present_tables
from butlers.notebook.search import fast_search
from butlers.notebook.tokens import term_counts

RECENT = 20
_ADOPTED_AT_ONCE = 200


def save_memory(db: Notebook, agent_id: str, key: str, content: str) -> EnrichedMemory:
    """Write the agent's note under this key; an archived one is live again.

    Whoever saves, the category, weights and references of a note are those of its content.
    """
    owner, name = checked_agent(agent_id), checked_key(key, db.limits)
    # Not masked: under a mask one note could take the place of another.
    refuse_secret(db.secrets, "key", name)
    admitted(db.secrets, "content", content, name)
    return write(db, owner, name, checked_content(content, db.limits))


def recall_memory(db: Notebook, agent_id: str, key: str) -> AgentMemory | None:
    """The agent's note under this key, archived or not, or None."""
    return store.get(db, checked_agent(agent_id), clean(key))


def list_memories(db: Notebook, agent_id: str, limit: int = RECENT) -> list[AgentMemory]:
    """The agent's live notes, the last changed first."""
    return store.recent(db, checked_agent(agent_id), checked_limit(limit))


def search_memories(
    db: Notebook, agent_id: str, query: str, limit: int = RECENT
) -> list[AgentMemory]:
    """The agent's live notes that match the query, best first."""
    return [result.memory for result in fast_search(db, agent_id, query, {"limit": limit})]


def write(db: Notebook, agent_id: str, key: str, content: str) -> EnrichedMemory:
    """Write a note and everything known about it, all or nothing; secrets go in as marks."""
    if db.secrets != "keep":
        content = admitted("mask", "content", content, key)
    found, counts = categorize(key, content), term_counts(key, content)
    with db.sqlite.transaction():
        memory = store.upsert(db, agent_id, key, content)
        _enrich(db, memory, found, counts)
    return store.enriched(memory, found)


def adopt_notes(db: Notebook) -> int:
    """Count and categorize the notes written before the index was, or by hand; how many."""
    adopted = 0
    while terms.find_uncounted(db, 1):
        with db.sqlite.transaction():
            waiting = terms.find_uncounted(db, _ADOPTED_AT_ONCE)
            for memory in waiting:
                counts = term_counts(memory.key, memory.content)
                _enrich(db, memory, categorize(memory.key, memory.content), counts)
        adopted += len(waiting)
    return adopted


def _enrich(
    db: Notebook, memory: AgentMemory, found: CategoryResult, counts: dict[str, int]
) -> None:
    """Write what is known about a note, as far as there are tables for it."""
    terms.count_terms(db, memory.id, counts)
    present = present_tables(db)
    if "memory_categories" in present:
        store.set_category(db, memory.id, found)
    if "memory_embeddings" in present:
        store.set_embedding(db, memory.id, terms.weights(db, memory.agent_id, counts))
    if "memory_cross_refs" in present:
        related.refer(db, memory, counts)
