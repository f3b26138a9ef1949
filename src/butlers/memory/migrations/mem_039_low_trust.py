"""Low trust is searched apart: its memories get negative numbers in the index."""

from butlers.db.upgrade import run_sections

revision = "mem_039"
down_revision = "mem_037"


def upgrade() -> None:
    """Renumber what low trust stored; functions get a parameter, which makes them other functions.

    Those of the version before are called by it as before, and then leave low trust out.
    """
    run_sections(__file__)
