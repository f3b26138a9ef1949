"""What a search in the index is made of: who may see what, which words are meant, what is near."""

from butlers.db.upgrade import run_sections

revision = "mem_017"
down_revision = "mem_016"


def upgrade() -> None:
    """Nothing reads the wide rows to find a memory any more."""
    run_sections(__file__)
