"""Counting and listing a tenant's memories without reading all of them."""

from butlers.db.upgrade import run_sections

revision = "mem_012"
down_revision = "mem_011"


def upgrade() -> None:
    """Every count and every page has an index that leads to it."""
    run_sections(__file__)
