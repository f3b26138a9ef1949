"""What a program stores is compared with the memories that are less trusted, if there are any."""

from butlers.db.upgrade import run_sections

revision = "mem_040"
down_revision = "mem_039"


def upgrade() -> None:
    """Add one small index a table."""
    run_sections(__file__)
