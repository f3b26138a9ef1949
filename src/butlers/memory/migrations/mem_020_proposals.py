"""Batches that shrink until the bad episode stands alone, proposals and claims of agents."""

from butlers.db.upgrade import run_sections

revision = "mem_020"
down_revision = "mem_019"

TABLES = ("memory_proposals", "memory_claims")


def upgrade() -> None:
    """Nothing waits for review yet, and every episode may be read in company."""
    run_sections(__file__, table=TABLES)
