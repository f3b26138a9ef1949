"""The best by words among a million: read where it decides, looked up where it does not."""

from butlers.db.upgrade import run_sections

revision = "mem_032"
down_revision = "mem_031"


def upgrade() -> None:
    """The same memories are found as before; of words in very many, how many is an estimate."""
    run_sections(__file__)
