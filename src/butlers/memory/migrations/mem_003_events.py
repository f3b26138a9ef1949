"""The audit stream of every change to memory."""

from butlers.db.upgrade import run_sections

revision = "mem_003"
down_revision = "mem_002"


def upgrade() -> None:
    """Every change can be recorded."""
    run_sections(__file__)
