"""Row-level security, forced, for a role that owns nothing; an audit stream nobody can rewrite."""

from butlers.db.upgrade import run_sections

revision = "mem_009"
down_revision = "mem_008"

TABLES = (
    "episodes", "facts", "rules", "entities", "memory_links",
    "memory_events", "rule_applications", "embedding_versions",
)  # fmt: skip


def upgrade() -> None:
    """A tenant's rows are invisible and untouchable outside a transaction that names it."""
    run_sections(__file__, table=TABLES)
