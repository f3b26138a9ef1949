"""Sessions are stored in pieces too: each exchange, decision and failure is found by itself."""

from butlers.db.upgrade import run_sections

revision = "mem_037"
down_revision = "mem_036"


def upgrade() -> None:
    """Add the columns, which are empty for whole episodes, and the indexes that tell them apart."""
    run_sections(__file__)
