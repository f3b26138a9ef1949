"""Another model's vectors beside those in use: the way to it, and the way back.

A memory's vector in use lies in its own row. While a tenant moves to another model, the vectors of
that model lie aside, and a version's state says which ones searches use: moving over is changing
two states, however many memories there are.
"""

from butlers.db.upgrade import run_sections

revision = "mem_010"
down_revision = "mem_009"


def upgrade() -> None:
    """A tenant has one model in use, and may have another on its way or kept to go back to."""
    run_sections(__file__, noun=("episode", "fact", "rule"))
