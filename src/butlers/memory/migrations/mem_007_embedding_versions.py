"""Which model made each vector."""

from butlers.db.upgrade import run_sections

revision = "mem_007"
down_revision = "mem_006"


def upgrade() -> None:
    """Every vector says which model and version made it."""
    run_sections(__file__, table=("episodes", "facts", "rules"))
