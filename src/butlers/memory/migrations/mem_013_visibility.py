"""What a caller may see, said once: how a memory stands, which scopes are seen, what is found.

Every function here is contained in the statement that calls it, so that indexes serve it as if it
were written there, and row-level security holds for the role that asks.
"""

from butlers.db.upgrade import run_sections

revision = "mem_013"
down_revision = "mem_012"


def upgrade() -> None:
    """What is visible has one definition, and every search, listing and count uses it."""
    run_sections(__file__)
