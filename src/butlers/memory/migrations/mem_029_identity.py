"""What an agent reads tells whom it names, and whoever is asked about is known by any name."""

from butlers.db.upgrade import run_sections

revision = "mem_029"
down_revision = "mem_028"


def upgrade() -> None:
    """Nothing that is stored changes."""
    run_sections(__file__)
