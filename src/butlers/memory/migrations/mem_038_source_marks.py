"""Memories name the agent that stored them, and the person who accepted or confirmed them."""

from alembic import op
from sqlalchemy import Column, Text

revision = "mem_038"
down_revision = "mem_037"


def upgrade() -> None:
    """Add the columns, which are empty for older memories and change no row."""
    for table in ("episodes", "facts", "rules"):
        for name in ("agent", "accepted_by"):
            op.add_column(table, Column(name, Text))
