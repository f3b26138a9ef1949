"""Rules say when they were said, as facts and episodes do; it is not known of older ones."""

from alembic import op
from sqlalchemy import Column, DateTime

revision = "mem_036"
down_revision = "mem_035"


def upgrade() -> None:
    """Add the column, which changes no row."""
    op.add_column("rules", Column("said_at", DateTime(timezone=True)))
