"""Entities: who and what the facts are about."""

from butlers.db.upgrade import run_sections

revision = "mem_002"
down_revision = "mem_001"


def upgrade() -> None:
    """A fact may name an entity, and an active fact is unique under its key."""
    run_sections(__file__)
