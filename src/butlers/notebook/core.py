"""Save, recall, list and search notes, without a cache."""

from butlers.kernel.secrets import admitted, refuse_secret
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
from butlers.notebook.tokenizer import term_counts

RECENT = 20
_ADOPTED_AT_ONCE = 200


def save_memory(db: Notebook, agent_id: str, key: str, content: str) -> EnrichedMemory:
    """Save the agent's note under this key; an archived note becomes live again.

    Its category, weights and references are computed from its content. Refuses a key with a secret.
    """
    owner, name = checked_agent(agent_id), checked_key(key, db.limits)
    # Refused, not masked: two masked keys could become the same.
    refuse_secret(db.secrets, "key", name)
    admitted(db.secrets, "content", content, name)
    return write(db, owner, name, checked_content(content, db.limits))


def recall_memory(db: Notebook, agent_id: str, key: str) -> AgentMemory | None:
    """Return the agent's note under this key, archived or not, or None."""
    return store.get(db, checked_agent(agent_id), clean(key))


def list_memories(db: Notebook, agent_id: str, limit: int = RECENT) -> list[AgentMemory]:
    """List the agent's live notes, last changed first."""
    return store.recent(db, checked_agent(agent_id), checked_limit(limit))


def search_memories(
    db: Notebook, agent_id: str, query: str, limit: int = RECENT
) -> list[AgentMemory]:
    """Search the agent's live notes, best first."""
    return [result.memory for result in fast_search(db, agent_id, query, {"limit": limit})]


def write(db: Notebook, agent_id: str, key: str, content: str) -> EnrichedMemory:
    """Write a note with its index, category and references in one transaction; mask secrets."""
    if db.secrets != "keep":
        content = admitted("mask", "content", content, key)
    category, counts = categorize(key, content), term_counts(key, content)
    with db.sqlite.transaction():
        memory = store.upsert(db, agent_id, key, content)
        _enrich(db, memory, category, counts)
    return store.enriched(memory, category)


def adopt_notes(db: Notebook) -> None:
    """Index and categorize notes written without the index."""
    while terms.find_uncounted(db, 1):
        with db.sqlite.transaction():
            for memory in terms.find_uncounted(db, _ADOPTED_AT_ONCE):
                counts = term_counts(memory.key, memory.content)
                _enrich(db, memory, categorize(memory.key, memory.content), counts)


def _enrich(
    db: Notebook, memory: AgentMemory, category: CategoryResult, counts: dict[str, int]
) -> None:
    """Write a note's index, category, weights and references, as far as the tables exist."""
    terms.count_terms(db, memory.id, counts)
    present = present_tables(db)
    if "memory_categories" in present:
        store.set_category(db, memory.id, category)
    if "memory_embeddings" in present:
        store.set_embedding(db, memory.id, terms.weights(db, memory.agent_id, counts))
    if "memory_cross_refs" in present:
        related.refer(db, memory, counts)
