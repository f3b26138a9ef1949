"""Low trust is searched apart: its memories get negative numbers in the index."""

from butlers.db.upgrade import run_sections

revision = "mem_039"
down_revision = "mem_038"


def upgrade() -> None:
    """Renumber what low trust stored; functions get a parameter that older processes leave out."""
    run_sections(__file__)
