"""Lifecycles the database understands: vocabularies, consolidation attempts, leases."""

from butlers.db.upgrade import run_sections

revision = "mem_005"
down_revision = "mem_004"


def upgrade() -> None:
    """A state outside its vocabulary cannot be stored."""
    run_sections(__file__)
