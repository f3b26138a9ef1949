"""A small tenant beside a large one: only its own vectors are read."""

from butlers.db.upgrade import run_sections

revision = "mem_033"
down_revision = "mem_032"


def upgrade() -> None:
    """Where few share a table, a plan for all of them took each for a large part of it."""
    run_sections(__file__)
