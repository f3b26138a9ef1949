"""Runs that went well in part, and what is known of the clock."""

from butlers.db.upgrade import run_sections

revision = "core_002"
down_revision = "core_001"


def upgrade() -> None:
    """A word for a run that changed something and yet met errors; a record of believed time."""
    run_sections(__file__)
