"""When a fact was said, where that was not when it was stored."""

from butlers.db.upgrade import run_sections

revision = "mem_014"
down_revision = "mem_013"


def upgrade() -> None:
    """Facts told later than they were said keep both times."""
    run_sections(__file__)
