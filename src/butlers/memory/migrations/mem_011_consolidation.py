"""An episode moves only along the edges of its state machine, whatever the code does."""

from butlers.db.upgrade import run_sections

revision = "mem_011"
down_revision = "mem_010"


def upgrade() -> None:
    """No episode returns from knowledge, nor leaves the dead letters but by being queued again."""
    run_sections(__file__)
