"""Facts that exclude each other or say the same, and how many values a predicate has."""

from butlers.db.upgrade import run_sections

revision = "mem_030"
down_revision = "mem_029"

TABLES = ("memory_conflicts", "memory_predicates")


def upgrade() -> None:
    """Nothing was looked for before: what is stored from now on is compared with what is known."""
    run_sections(__file__, table=TABLES)
