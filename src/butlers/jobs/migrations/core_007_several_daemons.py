"""What the processes that serve one butler must know of each other."""

from butlers.db.upgrade import run_sections

revision = "core_007"
down_revision = "core_006"


def upgrade() -> None:
    """Tokens and sign-ins are shared, and each machine vouches for its own clock."""
    run_sections(__file__)
