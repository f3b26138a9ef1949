"""Both ways of a large search at once: by words while the question is embedded, then by meaning."""

from butlers.db.upgrade import run_sections

revision = "mem_034"
down_revision = "mem_033"


def upgrade() -> None:
    """What was found ahead is not looked for again; whoever finds nothing ahead asks as before."""
    run_sections(__file__)
