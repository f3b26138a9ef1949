"""What agents' sessions were given at their start and prompts, and what became of it."""

from butlers.db.upgrade import run_sections

revision = "core_008"
down_revision = "core_007"


def upgrade() -> None:
    """Create the table, which is empty."""
    run_sections(__file__)
