"""Indexes that find what is there.

IVFFlat built on an empty table finds 7 to 50 % of the true neighbours, because its centres were
chosen from nothing; HNSW needs no training data.
"""

from butlers.db.upgrade import run_sections

revision = "mem_008"
down_revision = "mem_007"


def upgrade() -> None:
    """Nearest neighbours are really the nearest, and confidence has one definition."""
    run_sections(__file__, table=("episodes", "facts", "rules"))
