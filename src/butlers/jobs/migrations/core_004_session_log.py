"""The log of sessions: who asked what of which agent, and what came of it."""

from butlers.db.upgrade import run_sections

revision = "core_004"
down_revision = "core_003"


def upgrade() -> None:
    """Each session is one row that its own tenant alone can see."""
    run_sections(__file__)
