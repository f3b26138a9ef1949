"""Memories can be taken along, and a person can be erased from them."""

from butlers.db.upgrade import run_sections

revision = "mem_026"
down_revision = "mem_025"


def upgrade() -> None:
    """Nothing that is stored changes; what it takes to bring rows in and to erase them is added."""
    run_sections(__file__)
