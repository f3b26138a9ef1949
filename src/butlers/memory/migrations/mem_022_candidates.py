"""What a search finds comes as lists, one for each thing that is told of it, not row by row."""

from butlers.db.upgrade import run_sections

revision = "mem_022"
down_revision = "mem_021"


def upgrade() -> None:
    """Candidates are looked up once, for both legs together."""
    run_sections(__file__)
