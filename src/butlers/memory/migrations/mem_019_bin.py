"""What the cleanup removes goes to a bin first."""

from butlers.db.upgrade import run_sections

revision = "mem_019"
down_revision = "mem_018"


def upgrade() -> None:
    """A bin as closed as the memories, and an index of what nobody has read."""
    run_sections(__file__)
