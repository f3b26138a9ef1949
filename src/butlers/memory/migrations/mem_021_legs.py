"""What is near and what matches is found before it is asked which of it may be shown."""

from butlers.db.upgrade import run_sections

revision = "mem_021"
down_revision = "mem_020"


def upgrade() -> None:
    """Each leg of a search stands by itself, and reads no more than it must."""
    run_sections(__file__)
