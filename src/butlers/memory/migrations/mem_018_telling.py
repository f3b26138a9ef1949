"""One call finds what a question may be answered by, one tells what was found."""

from butlers.db.upgrade import run_sections

revision = "mem_018"
down_revision = "mem_017"


def upgrade() -> None:
    """A search takes two round trips, each of which names its tenant itself."""
    run_sections(__file__)
