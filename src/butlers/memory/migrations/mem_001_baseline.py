"""The three kinds of memory and the links between them."""

from butlers.db.upgrade import run_sections

revision = "mem_001"
down_revision = None
branch_labels = ("memory",)


def upgrade() -> None:
    """Episodes, facts, rules and links exist, searchable by vector and by text."""
    run_sections(__file__)
