"""An audit trail that proves itself, and tenants that are proven rather than named."""

from butlers.db.upgrade import run_sections

revision = "mem_025"
down_revision = "mem_024"

APPEND_ONLY = ("memory_events", "rule_applications", "memory_event_chain")
WALLED = (
    "episodes", "facts", "rules", "entities", "memory_links", "memory_events", "rule_applications",
    "embedding_versions", "episode_vectors", "fact_vectors", "rule_vectors", "index_memories",
    "index_words", "index_vectors", "index_names", "binned_episodes", "memory_proposals",
    "memory_claims", "projects",
)  # fmt: skip


def upgrade() -> None:
    """What happened before is chained in the order it was told in; nothing else of it changes."""
    run_sections(__file__, table=APPEND_ONLY, walled=WALLED)
