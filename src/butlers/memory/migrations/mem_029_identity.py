"""What an agent claims to read tells whom and what it names."""

from butlers.db.upgrade import run_sections

revision = "mem_029"
down_revision = "mem_028"


def upgrade() -> None:
    """Nothing that is stored changes."""
    run_sections(__file__)
