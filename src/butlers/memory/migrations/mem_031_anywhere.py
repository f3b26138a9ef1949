"""What is done for a tenant can be done where its rows are, be it another server."""

from butlers.db.upgrade import run_sections

revision = "mem_031"
down_revision = "mem_030"


def upgrade() -> None:
    """No row changes: functions say whom they act for, triggers know a table by its first name."""
    run_sections(__file__)
