"""Batches that shrink until the bad episode stands alone, and proposals that wait for a yes."""

from butlers.db.upgrade import run_sections

revision = "mem_021"
down_revision = "mem_018"


def upgrade() -> None:
    """Nothing waits for review yet, and every episode may be read in company."""
    run_sections(__file__)
